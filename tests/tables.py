"""Read the tables that notebooks show."""

from html.parser import HTMLParser

TAGS = {"table", "caption", "strong", "thead", "tbody", "tr", "th", "td", "br", "p"}


class Reader(HTMLParser):
    """Reads tables, and fails where tags do not match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
