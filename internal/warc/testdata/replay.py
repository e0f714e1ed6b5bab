# Replays captures of a crawl directory through pywb without a browser.
# Usage: replay.py DIR TIMESTAMP/URL... ; prints one JSON object a capture.
import base64
import json
import os
import sys

os.chdir(sys.argv[1])

from gevent import monkey

monkey.patch_all()

from pywb.apps.frontendapp import FrontEndApp
from werkzeug.test import Client

app = FrontEndApp(custom_config={
    'collections': {'c': {'index_paths': 'indexes/index.cdxj', 'archive_paths': 'archive/'}},
    'enable_auto_colls': False,
})
client = Client(app)
for capture in sys.argv[2:]:
    r = client.get('/c/' + capture)
    print(json.dumps({'status': r.status_code, 'body': base64.b64encode(r.get_data()).decode()}))
