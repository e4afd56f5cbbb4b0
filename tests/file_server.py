"""A server of files on this machine, for tests of downloads."""

import http.server
import threading
from contextlib import contextmanager


class Pages(http.server.BaseHTTPRequestHandler):
    """Serves the content of its server and keeps the paths that were asked for."""

    def do_GET(self):
        self.server.asked.append(self.path)
        body = self.server.content.get(self.path.removeprefix("/set/"))
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"") + self.server.withheld))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


@contextmanager
def serve(content):
    """Serves files below `/set/`; `asked` has what was asked for, `withheld` counts bytes that never come."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as serving:
        serving.content, serving.asked, serving.withheld = dict(content), [], 0
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()
