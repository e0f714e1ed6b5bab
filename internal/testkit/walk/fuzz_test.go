package walk

import (
	"net/http"
	"strings"
	"testing"
)

func FuzzResolve(f *testing.F) {
	for _, s := range []string{
		"http://a.example/b?c#d", "//h", "\\\\h\\x", "../..//./%2e%2e/", "?q='<", "https:rel", "http://u:p@h:80/",
		"\t/x\n y ", "/%zz%41%c3", "http://ü.example/ü",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		u, ok := Resolve("https://a.example/b/c?d", ref)
		if !ok {
			return
		}
		isHTTP := strings.HasPrefix(u, "http://") || strings.HasPrefix(u, "https://")
		if !isHTTP || strings.ContainsAny(u, "# \t\n\r\"<>") {
			t.Errorf("%q: got %q", ref, u)
		}
	})
}

func FuzzLinks(f *testing.F) {
	f.Add("text/html", []byte("<base href=x><a href=y rel=nofollow><template><a href=z></template>"+
		"<meta http-equiv=refresh content='0;url=w'>"))
	f.Add("application/rss+xml", []byte("<rss><channel><link>/x</link></channel></rss>"))
	f.Add("image/svg+xml", []byte("<svg><a href='/x'/></svg>"))
	f.Fuzz(func(t *testing.T, ctype string, body []byte) {
		for _, u := range links("http://a.example/", http.Header{"Content-Type": {ctype}}, body) {
			if !strings.HasPrefix(u, "http") {
				t.Errorf("got %q", u)
			}
		}
	})
}
