"""A pretended internet: addresses and their contents, without a network."""

import io
import zipfile


class Internet:
    """Contents by the end of their address, and the addresses opened so far."""

    def __init__(self):
        self.contents = {}
        self.opened = []
        self.announced = None

    def open(self, url):
        assert url.startswith("https://")
        self.opened.append(url)
        for end, content in self.contents.items():
            if url.endswith(end):
                response = io.BytesIO(content)
                length = len(content) if self.announced is None else self.announced
                response.headers = {"Content-Length": str(length)}
                return response
        raise OSError("no route to host")


def zipped(members):
    """Return a zip archive, given the contents of its files by name."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return content.getvalue()


class Evil:
    """An object whose pickle creates a file when it is read carelessly."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return eval, (f"open({str(self.path)!r}, 'w').close()",)
