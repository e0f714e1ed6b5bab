import scrapy
from scrapy.linkextractors import LinkExtractor


class Everything(scrapy.Spider):
    """Follows every link of every HTML page."""

    name = "everything"
    links = LinkExtractor(deny_extensions=[])

    async def start(self):
        with open(self.seeds) as lines:
            for url in lines:
                yield scrapy.Request(url.strip())

    def parse(self, response):
        if isinstance(response, scrapy.http.HtmlResponse):
            for link in self.links.extract_links(response):
                if not link.nofollow:
                    yield response.follow(link)
