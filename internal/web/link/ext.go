package link

import (
	"encoding/binary"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// A Destination says where a page belongs if the agents divide pages by their content: to the agent of a category,
// or of a hash. The zero Destination is none.
type Destination struct {
	// Category is the number of the page's category in the model's order, from 1; 0: pages are divided by hash.
	Category uint16
	// Hash is a hash of the page's content. It divides a category among several agents.
	Hash uint64
}

// A Stored says where an agent keeps a page for another agent: from octet From up to To of a file. The zero Stored
// is none.
type Stored struct {
	File     string // its name, without a directory
	From, To int64
}

// To returns the key of a link with this destination whose URL has key k. For category 0 it is k.
func (k Key) To(d Destination) Key {
	k.Host ^= uint64(d.Category) * 0x9fb21c651e98df25
	return k
}

// maxStored bounds the name of a file in octets.
const maxStored = 255

// Destination returns the destination of the page that the link stands for, or of the page on which the link was
// found. ok is false if the link has none.
func (l Link) Destination() (d Destination, ok bool) {
	if l.Ext == "" {
		return d, false
	}
	value, ok := l.field(tagDestination)
	category, n := uvarint(value)
	if !ok || n <= 0 || category > 1<<16-1 || len(value) != n+8 {
		return d, false
	}
	return Destination{uint16(category), binary.BigEndian.Uint64([]byte(value[n:]))}, true
}

// SetDestination sets the destination.
func (l *Link) SetDestination(d Destination) {
	value := binary.AppendUvarint(make([]byte, 0, 3+8), uint64(d.Category))
	l.setField(tagDestination, string(binary.BigEndian.AppendUint64(value, d.Hash)))
}

// Stored returns where this agent keeps the page that the link stands for. ok is false if the link stands for no page.
func (l Link) Stored() (s Stored, ok bool) {
	if l.Ext == "" {
		return s, false
	}
	value, ok := l.field(tagStored)
	from, n := uvarint(value)
	if !ok || n <= 0 {
		return s, false
	}
	size, m := uvarint(value[n:])
	const most = 1 << 62
	if m <= 0 || from > most || size > most || len(value) == n+m || len(value) > n+m+maxStored {
		return s, false
	}
	return Stored{File: value[n+m:], From: int64(from), To: int64(from + size)}, true
}

// SetStored sets where this agent keeps the page.
func (l *Link) SetStored(s Stored) {
	value := binary.AppendUvarint(nil, uint64(s.From))
	value = binary.AppendUvarint(value, uint64(s.To-s.From))
	l.setField(tagStored, string(append(value, s.File...)))
}

// Imported reports that another agent has fetched the URL.
func (l Link) Imported() bool {
	if l.Ext == "" {
		return false
	}
	_, is := l.field(tagImported)
	return is
}

// SetImported makes the link Imported.
func (l *Link) SetImported() { l.setField(tagImported, "") }

// Version returns the beginning of a digest of the page's content, if the page may come in several versions.
func (l Link) Version() (v uint64, ok bool) {
	if l.Ext == "" {
		return 0, false
	}
	value, ok := l.field(tagVersion)
	if !ok || len(value) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64([]byte(value)), true
}

// SetVersion sets the Version.
func (l *Link) SetVersion(v uint64) {
	l.setField(tagVersion, string(binary.BigEndian.AppendUint64(nil, v)))
}

// Refetches returns how often the URL is fetched again because an agent was lost with the archive that had its page: 0
// for a link that was found in the crawl, 1 for the first time.
func (l Link) Refetches() uint8 {
	if l.Ext == "" {
		return 0
	}
	if value, ok := l.field(tagRefetches); ok && len(value) == 1 {
		return value[0]
	}
	return 0
}

// SetRefetches sets the Refetches.
func (l *Link) SetRefetches(n uint8) {
	if n == 0 {
		l.removeField(tagRefetches)
		return
	}
	l.setField(tagRefetches, string([]byte{n}))
}

// IsSitemap reports that the URL was found as a sitemap, or as an index of sitemaps: it is named as one, or is a guess.
func (l Link) IsSitemap() bool {
	if l.Ext == "" {
		return false
	}
	_, is := l.field(tagSitemap)
	return is
}

// IsGuess reports that the URL is where sites usually have their sitemap, and that nothing names it.
func (l Link) IsGuess() bool {
	if l.Ext == "" {
		return false
	}
	value, _ := l.field(tagSitemap)
	return value == "\x01"
}

// SetSitemap makes the link a sitemap.
func (l *Link) SetSitemap(guess bool) {
	value := "\x00"
	if guess {
		value = "\x01"
	}
	l.setField(tagSitemap, value)
}

// MaxRoot is the limit of a Root in octets.
const MaxRoot = 512

// App returns the name of the application to which the link belongs; "" for the crawl's own links. The links on an
// application's page belong to it, too.
func (l Link) App() string {
	if strings.IndexByte(l.Ext, tagApp) < 0 {
		return ""
	}
	value, _ := l.field(tagApp)
	name, _, _ := strings.Cut(value, "\x00")
	return name
}

// Root returns what the scope of the link's application needs to know of the URL from which the link descends; "" if it
// needs nothing. See scope.Scope.Root.
func (l Link) Root() string {
	if strings.IndexByte(l.Ext, tagApp) < 0 {
		return ""
	}
	value, _ := l.field(tagApp)
	_, root, _ := strings.Cut(value, "\x00")
	return root
}

// SetApp makes the link one of an application. An empty name makes it the crawl's own. A root has at most MaxRoot
// octets.
func (l *Link) SetApp(name, root string) {
	switch {
	case name == "":
		l.removeField(tagApp)
		return
	case root != "":
		name += "\x00" + root
	}
	l.setField(tagApp, name)
}

// For returns the key of an application's link to the URL with key k. For "" it is k.
func (k Key) For(app string) Key {
	if app != "" {
		k.Path ^= xxhash.Sum64String(app)*0x9fb21c651e98df25 | 1
	}
	return k
}

// Key returns the fingerprint that the seen-set, the journal and the other agents know the link by. It is that of the
// URL, mixed with the Refetches, the App, and how often the Steps have requested the URL. So a URL that is fetched
// again counts as new once each time, and so does the URL for each application. Versions of this program that do not
// know App compute another key. So an application may be defined only when all agents of a cluster know it.
func (l Link) Key() Key {
	k := l.PageKey()
	if l.Ext == "" {
		return k
	}
	k.Path ^= uint64(l.Refetches()) * 0x9e3779b97f4a7c15
	return k.For(l.App())
}

// PageKey returns the fingerprint of the link's URL, mixed with how often the Steps have requested it: a redirect, and
// the page to which it came back, are two pages.
func (l Link) PageKey() Key {
	k := KeyOf(l.URL)
	if steps := l.Steps(); steps != "" {
		times, _ := Passed(steps, l.URL, 0)
		k.Path ^= uint64(times) * 0xd6e8feb86659fd93
	}
	return k
}

// WithoutStored returns the link as another agent gets it.
func (l Link) WithoutStored() Link {
	l.removeField(tagStored)
	return l
}

// AsLink returns the link of a page without what makes it a page: the URL as it was found.
func (l Link) AsLink() Link {
	l.removeField(tagStored)
	l.removeField(tagDestination)
	l.removeField(tagVersion)
	return l
}

// Sent returns a link of another agent as this agent takes it: without Stored, Imported and Version, which only the
// agent of a page says of it.
func (l Link) Sent() Link {
	l.removeField(tagStored)
	l.removeField(tagImported)
	l.removeField(tagVersion)
	return l
}

func uvarint(s string) (v uint64, n int) {
	return binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
}

// setField sets a field of l.Ext. Its tags stay in order.
func (l *Link) setField(tag byte, value string) {
	l.removeField(tag)
	at := 0
	for at < len(l.Ext) && l.Ext[at] < tag {
		at += fieldLen(l.Ext[at:])
	}
	head := binary.AppendUvarint([]byte{tag}, uint64(len(value)))
	l.Ext = l.Ext[:at] + string(head) + value + l.Ext[at:]
}

func (l *Link) removeField(tag byte) {
	if l.Ext == "" || strings.IndexByte(l.Ext, tag) < 0 {
		return
	}
	for at := 0; at < len(l.Ext); {
		n := fieldLen(l.Ext[at:])
		if l.Ext[at] == tag {
			l.Ext = l.Ext[:at] + l.Ext[at+n:]
			return
		}
		at += n
	}
}

// fieldLen returns the length of the field at the beginning of a valid Ext.
func fieldLen(s string) int {
	size, n := uvarint(s[1:])
	if n <= 0 || size > uint64(len(s)-1-n) {
		return len(s)
	}
	return 1 + n + int(size)
}
