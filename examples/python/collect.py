#!/usr/bin/env python3
"""An application of a running crawl: it gives URLs to the crawl and collects their pages.

    orbweaver ctl app shop --strategy list --pages
    python3 collect.py --app shop --out shop urls.txt

The file has a URL on each line, with a priority from 0 to 15 behind it if it is not 0. The program writes the bodies to
OUT/bodies and a line for each page to OUT/pages.jsonl, and runs until Ctrl-C. It may be killed at any time. Started
again, it goes on: OUT/fed says how many URLs the crawl has, and pages that were not acknowledged come again.

It needs only the standard library of Python 3.8.
"""

import argparse
import base64
import hashlib
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request

class Refused(Exception):
    """The crawl has answered that the call is wrong."""


class Crawl:
    """The API of a running crawl, whose address and token are in state/api.json of its directory."""

    def __init__(self, directory):
        self.file = os.path.join(directory, "state", "api.json")

    def call(self, name, **fields):
        """Returns the answer of a call. It tries again while the crawl does not run or does not answer."""
        while True:
            try:
                return self.once(name, fields)
            except (OSError, ValueError) as err:  # a restarted crawl has another address and token
                print(f"{name}: {err}; trying again", file=sys.stderr)
                time.sleep(1)

    def once(self, name, fields):
        with open(self.file, encoding="utf-8") as f:
            access = json.load(f)
        scheme, context = "http", None
        if "cert" in access:  # the API has exactly this certificate
            scheme, context = "https", ssl.create_default_context(
                cadata=ssl.DER_cert_to_PEM_cert(base64.b64decode(access["cert"])))
            context.check_hostname = False
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        request = urllib.request.Request(
            f"{scheme}://{access['addr']}/orbweaver.operator.v1.Operator/{name}", json.dumps(fields).encode(),
            {"Content-Type": "application/json", "Authorization": "Bearer " + access["token"]})
        try:
            with urllib.request.urlopen(request, timeout=90, context=context) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as err:
            text = err.read().decode(errors="replace")
            try:
                problem = json.loads(text)
            except ValueError:
                problem = {"message": text}
            if problem.get("code") in ("invalid_argument", "not_found", "failed_precondition"):
                raise Refused(problem.get("message")) from None
            raise OSError(problem.get("message")) from None


class Store:
    """The directory with the collected pages. What add and fed have returned survives a kill."""

    def __init__(self, out):
        self.out = out
        os.makedirs(os.path.join(out, "bodies"), exist_ok=True)
        self.pages = open(os.path.join(out, "pages.jsonl"), "a+b")
        self.pages.seek(0)
        self.urls, end = set(), 0
        for line in self.pages:
            if not line.endswith(b"\n"):
                break  # a kill has cut the last line
            self.urls.add(json.loads(line)["url"])
            end += len(line)
        self.pages.truncate(end)

    def add(self, pages):
        """Writes the pages that are not there yet, and makes them durable. It returns how many came again."""
        again = 0
        for page in pages:
            body = base64.b64decode(page.pop("body", ""))
            if page["url"] in self.urls:
                again += 1  # its acknowledgement was lost
                continue
            self.urls.add(page["url"])
            if body:
                page["body"] = hashlib.sha256(page["url"].encode()).hexdigest()
                self.write(os.path.join("bodies", page["body"]), body)
            self.pages.write(json.dumps(page).encode() + b"\n")
        self.pages.flush()
        os.fsync(self.pages.fileno())
        return again

    def fed(self, count=None):
        """Returns how many URLs of the file the crawl has, or sets it."""
        if count is not None:
            self.write("fed", str(count).encode())
            return count
        try:
            with open(os.path.join(self.out, "fed"), encoding="utf-8") as f:
                return int(f.read())
        except FileNotFoundError:
            return 0

    def write(self, name, data):
        path = os.path.join(self.out, name)
        with open(path + ".tmp", "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(path + ".tmp", path)


def read_urls(name):
    """Returns the URLs of a file as the API wants them."""
    urls = []
    with open(name, encoding="utf-8") as f:
        for line in f:
            url, *priority = line.split() or [""]
            if url:
                urls.append({"url": url, "priority": int(priority[0]) if priority else 0})
    return urls


def main():
    flags = argparse.ArgumentParser(description="Give URLs to an application of a running crawl, and collect its pages.")
    flags.add_argument("--dir", default="./crawl", help="directory of the running crawl")
    flags.add_argument("--app", required=True, help="name of the application")
    flags.add_argument("--out", required=True, help="directory for the pages")
    flags.add_argument("--batch", type=int, default=200, help="URLs or pages of a call, at most 1000")
    flags.add_argument("file", help="file of URLs")
    args = flags.parse_args()
    crawl, store, urls = Crawl(args.dir), Store(args.out), read_urls(args.file)
    fed = store.fed()
    while True:
        if fed < len(urls):
            batch = urls[fed:fed + args.batch]
            for url in crawl.call("Feed", application=args.app, urls=batch)["urls"]:
                if url["result"] == "refused":
                    print(f"{url['url']}: {url['text']}", file=sys.stderr)
            fed = store.fed(fed + len(batch))
        wait = 0 if fed < len(urls) else 30
        answer = crawl.call("Pages", application=args.app, limit=args.batch, wait=wait, body=True)
        if answer.get("pages"):
            again = store.add(answer["pages"])
            crawl.call("Acknowledge", application=args.app, token=answer["token"])
            print(f"{len(store.urls)} pages, {again} came again", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Refused as problem:
        sys.exit(f"the crawl answers: {problem}")
    except KeyboardInterrupt:
        pass
