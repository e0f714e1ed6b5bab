package settings

import (
	"fmt"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"github.com/orbweaver/orbweaver/internal/web/scope"
)

func TestSitemapsFlag(t *testing.T) {
	const url, other = "https://a.example/s.xml?a,b", "http://a.example/2.xml"
	for args, want := range map[string]string{
		"":                                     "false, false",
		"--sitemaps":                           "true, true",
		"--sitemaps=true":                      "true, true",
		"--no-sitemaps":                        "false, false",
		"--sitemaps=false":                     "false, false",
		"--sitemaps --no-sitemaps":             "false, false",
		"--sitemaps=" + url:                    url + ", [https://a.example/s.xml?a,b]",
		"--sitemaps=" + url + ",true," + other: url + ", true, " + other + ", [" + url + " true " + other + "]",
		"--sitemaps=a.example/s":               `--sitemaps: "a.example/s" is not the URL of a sitemap; write true, false, or `,
		"--sitemaps=ftp://a/b":                 `--sitemaps: "ftp://a/b" is not the URL of a sitemap; write true, false, or `,
		"--sitemap-from yesterday":             `--sitemap-from: "yesterday" is not a date; write 2026-11-30, or a time such as `,
		"--sitemap-from 2026-11-30":            "false, false 2026-11-30",
		"--sitemaps=" + url + " --sitemaps --sitemaps=" + other: url + ", true, " + other + ", [" + url + " true " +
			other + "]",
		"--sitemap-from 2026-11-30T08:00:00+01:00": "false, false 2026-11-30T08:00:00+01:00",
	} {
		var flags struct {
			Sitemaps    Sitemaps `negatable:""`
			SitemapFrom Date
		}
		parser, err := kong.New(&flags, kong.Exit(func(int) {}))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := parser.Parse(strings.Fields(args)); err != nil {
			got = err.Error()
			got = got[:min(len(got), len(want))]
		} else {
			b, err := yaml.Marshal(yaml.MapSlice{{Key: "s", Value: flags.Sitemaps}})
			if err != nil {
				t.Fatal(err)
			}
			var read struct{ S any }
			if err := yaml.Unmarshal(b, &read); err != nil {
				t.Fatal(err)
			}
			got = strings.TrimSpace(fmt.Sprintf("%v, %v %v", flags.Sitemaps, read.S, flags.SitemapFrom))
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", args, got, want)
		}
	}
}

func TestWithSitemaps(t *testing.T) {
	for i, want := range []bool{scope.Host: true, scope.Page: false, scope.Prefix: false, scope.Domain: true,
		scope.Any: false} {
		k := scope.Kind(i)
		if got := WithSitemaps(k, "bfs"); got != want {
			t.Errorf("%v: got %t", k, got)
		}
		if WithSitemaps(k, "list") || WithSitemaps(k, "walk") {
			t.Errorf("%v: lists and walks follow sitemaps", k)
		}
	}
}
