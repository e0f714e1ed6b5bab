package sheet

import (
	"strings"
	"testing"
)

func TestKeep(t *testing.T) {
	for _, tt := range []struct {
		values []string
		url    string // of a response
		mime   string
		want   bool
	}{
		{nil, "https://a.example/", "text/html", true},
		{[]string{"application/pdf"}, "https://a.example/x", "application/pdf", true},
		{[]string{"Application/PDF"}, "https://a.example/x", "application/pdf", true},
		{[]string{"application/pdf"}, "https://a.example/application/pdf", "text/html", false},
		{[]string{"application/pdf"}, "https://a.example/x", "application/pdfx", false},
		{[]string{"application/pdf"}, "https://a.example/x", "", false},
		{[]string{"image/*"}, "https://a.example/x", "image/svg+xml", true},
		{[]string{"image/*"}, "https://a.example/image/", "text/html", false},
		{[]string{"x-world/*"}, "https://a.example/", "x-world/x-vrml", true},
		{[]string{"image/*", `\.pdf$`}, "https://a.example/a.pdf", "text/html", true},
		{[]string{`\.pdf$`}, "https://a.example/a.pdf?x", "application/pdf", false},
		{[]string{`docs/pdf`}, "https://a.example/docs/pdf", "text/html", true},
		{[]string{`text/.*\.txt`}, "https://a.example/text/1.txt", "text/plain", true},
		{[]string{`text/.*\.txt`}, "https://a.example/", "text/plain", false},
		{[]string{`url:pdf`}, "https://a.example/pdf", "text/html", true},
		{[]string{`pdf/`}, "https://a.example/pdf/", "text/html", true},
		{[]string{`url:image/png`}, "https://a.example/image/png", "text/html", true},
		{[]string{`url:image/png`}, "https://a.example/", "image/png", false},
		{[]string{`mime:foo/bar`}, "https://a.example/", "foo/bar", true},
		{[]string{`MIME:FOO/*`}, "https://a.example/", "foo/bar", true},
		{[]string{`Url:image/png`}, "https://a.example/image/png", "text/html", true},
	} {
		k, err := ParseKeep("--keep", tt.values)
		if err != nil {
			t.Errorf("%q: %v", tt.values, err)
			continue
		}
		if got := k.All() || k.URL(tt.url) || k.Type(tt.mime); got != tt.want {
			t.Errorf("%q keeps %s, %q: %t, want %t", tt.values, tt.url, tt.mime, got, tt.want)
		}
	}
}

func TestKeepMistakes(t *testing.T) {
	for value, want := range map[string]string{
		"":                            "is empty",
		"mime:":                       "is empty",
		"url:":                        "is empty",
		"*.pdf":                       "not a file name pattern",
		"pdf":                         `write application/pdf; for URLs that end so, write 'url:\.pdf$'`,
		".PDF":                        "write application/pdf",
		"jpeg":                        "write image/jpeg",
		"aplication/pdf":              "did you mean application/pdf?",
		"txet/html":                   "did you mean text/html?",
		"text/html; charset=utf-8":    "without its parameters; give text/html",
		"mime:pdf":                    "is not a media type",
		"application/pdf|image/png":   "as a value of its own: application/pdf and image/png",
		"application/pdf, image/jpeg": "as a value of its own: application/pdf and image/jpeg",
		`\.(pdf$`:                     "missing closing )",
	} {
		if _, err := ParseKeep("--keep", []string{value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
}
