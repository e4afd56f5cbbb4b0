"""Refuses a commit whose subject is longer than 72 letters: subject.py FILE, with the message in the file."""

import sys
from pathlib import Path

LONGEST = 72

subject = Path(sys.argv[1]).read_text().partition("\n")[0]
if len(subject) > LONGEST:
    sys.exit(
        f"The subject has {len(subject)} letters; at most {LONGEST} are shown everywhere. Say the rest in the body."
    )
