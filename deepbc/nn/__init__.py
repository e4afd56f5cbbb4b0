"""Networks: conditioners of laws with their Jacobians, and convolutions for images."""
