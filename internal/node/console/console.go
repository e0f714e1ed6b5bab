// Package console answers: which pages does an agent show to an operator's browser?
//
//	page/index.html, style.css and *.js, embedded -> Handler -> GET / and GET /console/NAME
//
// The pages are the same for all callers, and have nothing of the crawl in them. They ask the calls of package operate
// as the browser's user, who has logged in (package admin).
//
// Servers choose much of what the pages show. So the pages write it only as text (textContent), and a
// Content-Security-Policy permits no script, no style and no connection but those of this server.
package console

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed page
var files embed.FS

// policy permits what the pages need, from this server alone. Trusted types make the browser refuse HTML made of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types 'none'"

// Handler serves the pages at / and below /console/.
func Handler() http.Handler {
	pages, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the directory is embedded
	}
	serve := http.FileServerFS(pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // another version may serve the next request
		path := "/"
		if r.URL.Path != "/" {
			name := strings.TrimPrefix(r.URL.Path, "/console/")
			if info, err := fs.Stat(pages, name); err != nil || info.IsDir() {
				http.NotFound(w, r)
				return
			}
			path += name
		}
		r2 := r.Clone(r.Context())
		r2.URL.Path = path
		serve.ServeHTTP(w, r2)
	})
}
