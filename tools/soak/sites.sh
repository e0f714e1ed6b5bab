#!/bin/sh
# Makes three sites that nobody made for a crawler, in the folder DIR: sites.sh DIR
#
#   DIR/swagger     the documentation of an API, with Swagger UI
#   DIR/docsify     our own documentation, with Docsify
#   DIR/docusaurus  the site that Docusaurus makes for a beginner, built
#
# "orbweaver testweb --folder swagger.example=DIR/swagger ..." serves them. The script needs npm (install.sh installs
# it) and the npm registry. What exists is not made again.
set -eu
if [ $# -ne 1 ]; then
	echo "usage: sites.sh DIR" >&2
	exit 2
fi
root="$(cd "$(dirname "$0")/../.." && pwd)"
venv="${ORBWEAVER_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/orbweaver-venv}"
PATH="$PATH:$venv/bin"
export npm_config_loglevel=error npm_config_audit=false npm_config_fund=false npm_config_ignore_scripts=true
mkdir -p "$1"
dir="$(cd "$1" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"

# package NAME VERSION FOLDER unpacks a package.
package() {
	mkdir -p "$3"
	tar -xzf "$(npm pack --silent "$1@$2")" -C "$3" --strip-components=1
}

if ! [ -e "$dir/swagger" ]; then
	package swagger-ui-dist 5.35.0 swagger
	rm -f swagger/*.map swagger/*-es-*
	cat >swagger/swagger-initializer.js <<'END'
window.onload = () => {
  window.ui = SwaggerUIBundle({ url: '/api.json', dom_id: '#swagger-ui', deepLinking: true, validatorUrl: null,
    docExpansion: 'full',
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset], layout: 'StandaloneLayout' });
};
END
	cat >swagger/api.json <<'END'
{"openapi": "3.0.3", "info": {"title": "Ferry times", "version": "1",
  "description": "Times of the ferry. See [the guide](/guide.html) and [the terms](/terms.html)."},
 "externalDocs": {"description": "More of it", "url": "/more.html"},
 "paths": {"/ferries": {"get": {"summary": "List the ferries", "tags": ["ferries"],
    "responses": {"200": {"description": "The ferries. [Their names](/names.html)."}}}},
  "/ferries/{id}": {"get": {"summary": "One ferry", "tags": ["ferries"],
    "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
    "responses": {"200": {"description": "The ferry."}}}}}}
END
	for page in guide terms more names; do
		echo "<!doctype html><title>$page</title><p>This is the page $page. <a href=\"/\">The interface</a>" \
			>"swagger/$page.html"
	done
	mv swagger "$dir"
fi

if ! [ -e "$dir/docsify" ]; then
	package docsify 4.13.1 package
	mkdir -p docsify/text
	cp package/lib/docsify.min.js package/lib/themes/vue.css docsify
	cp "$root"/docs/*.md docsify/text
	cat >docsify/index.html <<'END'
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Documents</title><link rel="stylesheet" href="vue.css"></head>
<body><div id="app"></div>
<script>window.$docsify = { name: 'Documents', routerMode: 'history', basePath: '/text/' };</script>
<script src="docsify.min.js"></script></body></html>
END
	# Each page has a URL of its own, at which the server answers with the same document.
	for page in docsify/text/*.md; do
		name="$(basename "$page" .md)"
		[ "$name" = README ] || sed 's,\(href\|src\)=",\1="/,' docsify/index.html >"docsify/$name.html"
	done
	mv docsify "$dir"
fi

if ! [ -e "$dir/docusaurus" ]; then
	package create-docusaurus 3.10.2 create
	cp -R create/templates/shared site
	cp -R create/templates/classic/. site
	cd site
	for f in gitignore; do mv "$f" ".$f" 2>/dev/null || true; done
	sed -i 's,"@docusaurus/\([a-z-]*\)": "[^"]*","@docusaurus/\1": "3.10.2",' package.json
	npm install
	npx --no docusaurus build --no-minify
	mv build "$dir/docusaurus"
fi
