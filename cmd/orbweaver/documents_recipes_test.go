package main

import "syscall"

// recipeSteps has the commands of docs/recipes.md, in their order.
var recipeSteps = []step{
	{command: "orbweaver crawl --dir site --contact you@example.org --requisites https://example.org/"},
	{command: "orbweaver replay site", not: "it serves until Ctrl-C; the script replay does it"},
	{command: "orbweaver export --mirror site-files site"},

	{command: "orbweaver crawl --dir pdfs --contact you@example.org --keep application/pdf https://example.org/"},
	{command: "orbweaver warc ls pdfs"},

	{command: "printf 'https://example.org/1.html\nhttps://example.net/\n' >urls.txt", added: true},
	{command: "orbweaver crawl --dir list --contact you@example.org --strategy list --seeds urls.txt"},
	{command: "orbweaver crawl --dir list2 --contact you@example.org --strategy list --seeds urls.txt " +
		"--stream jsonl >pages.jsonl"},
	{command: "grep -q '\"url\":\"https://example.net/\"' pages.jsonl", added: true},

	{command: "orbweaver crawl --dir check --quiet --links --contact you@example.org https://example.org/"},
	{command: "orbweaver report --fail-on broken check"},

	{command: "orbweaver crawl --resume --dir site"},

	{command: "nohup orbweaver crawl --dir big --api 127.0.0.1:7480 --contact you@example.org https://example.org/ " +
		">big.log 2>&1 &", not: "the port may be in use",
		instead: "nohup orbweaver crawl --dir big --api 127.0.0.1:0 --delay 10m --contact you@example.org " +
			"https://example.org/ >big.log 2>&1",
		beside: true, signal: syscall.SIGTERM, code: exitSignal, await: [2]string{"big/logs/crawl.log", "robots.txt"}},
	{command: "orbweaver ctl --dir big status", last: true},

	{command: "orbweaver crawl --dir proxied --contact you@example.org --proxy http://127.0.0.1:3128 " +
		"https://example.org/", not: "no proxy listens there; the script proxy crawls through one"},

	{command: "printf 'example.org\tFALSE\t/\tTRUE\t0\tsession\tx\n' >cookies.txt", added: true},
	{command: "orbweaver crawl --dir members --contact you@example.org --cookie-file cookies.txt --exclude /logout " +
		"https://example.org/"},
	{command: "echo machine www.example.org login me password s3cret >netrc", added: true},
	{command: "orbweaver crawl --dir intranet --contact you@example.org --auth-file netrc https://www.example.org/"},

	{command: "echo https://example.org/ >sites.txt", added: true},
	{command: "printf 'contact: you@example.org\nscope: any\ndepth: 3\n' >broad.yaml", added: true},
	{command: "orbweaver crawl --config broad.yaml --seeds sites.txt --dir broad --dry-run"},
	{command: "orbweaver crawl --config broad.yaml --seeds sites.txt --dir broad --api 127.0.0.1:7480",
		not: "the port may be in use", instead: "orbweaver crawl --config broad.yaml --seeds sites.txt --dir broad " +
			"--api 127.0.0.1:0"},

	{command: "orbweaver cluster keys --out keys --agents a1,a2,a3"},
	{command: "scp -r keys/a2 second.example.org:keys", not: "copies to another machine; the test copies to second"},
	{command: "scp -r keys/a3 third.example.org:keys", not: "copies to another machine; the test copies to third"},
	{command: "for m in second:a2 third:a3; do mkdir -p ${m%:*} && cp -r keys/${m#*:} ${m%:*}/keys; done", added: true},
	{command: "orbweaver crawl --name a1 --listen 192.0.2.1:7470 --keys keys/a1 --agents 3 " +
		"--contact you@example.org https://example.org/ https://example.net/ https://example.com/", beside: true},
	{command: "orbweaver crawl --name a2 --listen 192.0.2.2:7470 --keys keys --agents 3 --join 192.0.2.1:7470 " +
		"--contact you@example.org https://example.org/ https://example.net/ https://example.com/",
		dir: "second", beside: true},
	{command: "orbweaver crawl --name a3 --listen 192.0.2.3:7470 --keys keys --agents 3 --join 192.0.2.1:7470 " +
		"--contact you@example.org https://example.org/ https://example.net/ https://example.com/",
		dir: "third", last: true},

	{command: "orbweaver testweb --generate --hosts 20 --pages-mean 5 --promise-delay 1s --agent wget " +
		"--seeds-out seeds.txt -- wget2 -r -H --wait 1 --directory-prefix pages --input-file seeds.txt",
		not: "the machine may lack wget2; the script testweb-command runs other commands"},
}
