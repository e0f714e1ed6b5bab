package node

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// ofCrawl are the fields of a warcinfo record that say what the program does. An operator may not set them.
var ofCrawl = []string{"software", "format", "conformsTo", "robots", "http-header-user-agent"}

// maxInfo is the longest value of a field of warcinfo records, in bytes.
const maxInfo = 4096

// ParseInfo reads the values of the setting warcinfo, each NAME=VALUE: fields of every warcinfo record. A name may be
// given several times. The error is an *input.ConfigError.
func ParseInfo(values []string) (fields []warc.Field, err error) {
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok || !isInfoName(name):
			return nil, input.Errorf("{warcinfo} %.80q: write NAME=VALUE, such as audience=researchers; a name has "+
				"letters, digits, - and _", v)
		case slices.ContainsFunc(ofCrawl, func(own string) bool { return strings.EqualFold(own, name) }):
			return nil, input.Errorf("{warcinfo} %s: the crawl sets this field itself; leave it out", name)
		case value == "":
			return nil, input.Errorf("{warcinfo} %s has no value; write %[1]s=VALUE", name)
		case len(value) > maxInfo:
			return nil, input.Errorf("{warcinfo} %s: the value has %d bytes; give at most %d", name, len(value),
				maxInfo)
		case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
			return nil, input.Errorf("{warcinfo} %s: %.80q has a line break or another control character; give one "+
				"line of text", name, value)
		}
		fields = append(fields, warc.Field{Name: name, Value: value})
	}
	return fields, nil
}

// isInfoName reports whether a field of a warcinfo record may have this name.
func isInfoName(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	}) < 0
}

// CrawlName returns the name of the crawl in the paths of its segments: isPartOf of the warcinfo records, by default
// the name of the crawl directory. A crawl that continues keeps its name if its directory gets another one.
func CrawlName(c *Config) string {
	name := baseName(c.Dir)
	if names, err := warc.Crawls(cmp.Or(c.FS, disk.OS), c.Dir); c.Resume && err == nil && len(names) == 1 {
		name = names[0]
	}
	for _, f := range c.Archive.Info {
		if strings.EqualFold(f.Name, "isPartOf") {
			name = f.Value
		}
	}
	if name = disk.SafeName(name); strings.Trim(name, ".") == "" {
		name = "crawl"
	}
	return name
}

// baseName returns the name of a directory, also if the path is ".".
func baseName(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Base(dir)
}

// info returns the fields of every warcinfo record. Those of Config.Archive.Info take the place of those that describe
// the crawl.
func (a *Agent) info(ua string) []warc.Field {
	host, _ := os.Hostname()
	given := a.cfg.Archive.Info
	fields := []warc.Field{
		{Name: "software", Value: "Orbweaver/" + Version + " (https://github.com/orbweaver/orbweaver)"},
		{Name: "hostname", Value: host},
		{Name: "robots", Value: "obey (RFC 9309)"},
		{Name: "http-header-user-agent", Value: ua},
		{Name: "isPartOf", Value: cmp.Or(a.cfg.Archive.Segments.Crawl, baseName(a.cfg.Dir))},
	}
	if a.cfg.Contact != "" {
		fields = append(fields, warc.Field{Name: "operator", Value: a.cfg.Contact})
	}
	fields = slices.DeleteFunc(fields, func(f warc.Field) bool {
		return slices.ContainsFunc(given, func(g warc.Field) bool { return strings.EqualFold(g.Name, f.Name) })
	})
	return append(fields, given...)
}
