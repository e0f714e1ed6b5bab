package sheet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Values are the settings of a part of the web. A nil field leaves the setting to the less specific prefixes, and in
// the end to the crawl.
type Values struct {
	// Delay is the quiet time of a host. HostPageLimit bounds the pages of each host; 0 is no limit. Both belong to
	// prefixes of whole hosts only.
	Delay         *time.Duration
	HostPageLimit *int64
	// Depth is the maximum number of links from a seed, HostDepth that from where the crawl entered the host;
	// negative is no limit.
	Depth, HostDepth *int
	Include, Exclude *Patterns
	Keep             *Keep
	// Headers are the fields of requests. Each name is a setting of its own.
	Headers []Header
}

// over returns v with the settings of w in front.
func (v Values) over(w *Values) Values {
	set(&v.Delay, w.Delay)
	set(&v.HostPageLimit, w.HostPageLimit)
	set(&v.Depth, w.Depth)
	set(&v.HostDepth, w.HostDepth)
	set(&v.Include, w.Include)
	set(&v.Exclude, w.Exclude)
	set(&v.Keep, w.Keep)
	v.Headers = mergeHeaders(v.Headers, w.Headers)
	return v
}

func set[T any](to **T, p *T) {
	if p != nil {
		*to = p
	}
}

// mergeHeaders returns the fields of a and b. A field of b replaces that of a with the same name.
func mergeHeaders(a, b []Header) []Header {
	if len(b) == 0 {
		return a
	}
	merged := slices.DeleteFunc(slices.Clone(a), func(h Header) bool {
		return slices.ContainsFunc(b, func(o Header) bool { return strings.EqualFold(o.Name, h.Name) })
	})
	return append(merged, b...)
}

// A Rule is a prefix with its settings.
type Rule struct {
	Prefix Prefix
	Text   string // the prefix as it was written
	Values Values
	keys   []string // names of the settings
}

// Keys returns the names of the rule's settings, sorted.
func (r *Rule) Keys() []string { return r.keys }

// A Table finds the settings that hold for a host or a URL. Nil is the empty Table.
//
// All rules whose prefix holds for a URL apply, and the most specific one wins, setting by setting. A longer host is
// more specific than a shorter one, a host alone than one with all hosts below it; then follow a longer path, a port
// and a scheme.
type Table struct {
	exact, below map[string]*node // by host
	rules        []*Rule          // the less specific ones first
	hostDepth    bool             // a rule bounds the HostDepth
	digest       string
}

// A node has the rules that may hold for URLs of a host.
type node struct {
	host   Values  // of the rules for whole hosts
	narrow bool    // some rules hold only for a part of the host
	rules  []*Rule // the less specific ones first

	merged sync.Map // by which rules hold, a string of bits: *Values
}

// newTable returns the Table of some rules, or nil if there are none.
func newTable(rules []*Rule) *Table {
	if len(rules) == 0 {
		return nil
	}
	t := &Table{exact: map[string]*node{}, below: map[string]*node{}}
	t.rules = slices.SortedStableFunc(slices.Values(rules), func(a, b *Rule) int { return a.Prefix.compare(&b.Prefix) })
	for _, r := range t.rules {
		t.hostDepth = t.hostDepth || r.Values.HostDepth != nil && *r.Values.HostDepth >= 0
		p := &r.Prefix
		nodes := t.exact
		if p.Below {
			nodes = t.below
		}
		if nodes[p.Host] == nil {
			nodes[p.Host] = t.newNode(p.Host, p.Below)
		}
	}
	return t
}

func (t *Table) newNode(host string, below bool) *node {
	n := &node{}
	for _, r := range t.rules {
		if !r.Prefix.hasHost(host) || below && !r.Prefix.Below {
			continue
		}
		n.rules = append(n.rules, r)
		if r.Prefix.WholeHost() {
			n.host = n.host.over(&r.Values)
		} else {
			n.narrow = true
		}
	}
	return n
}

func (t *Table) node(host string) *node {
	if n := t.exact[host]; n != nil {
		return n
	}
	if len(t.below) == 0 {
		return nil
	}
	for name := host; ; {
		if n := t.below[name]; n != nil {
			return n
		}
		_, rest, ok := strings.Cut(name, ".")
		if !ok {
			return nil
		}
		name = rest
	}
}

var none Values

// Host returns the settings of a whole host: those that hold for all its URLs. They must not be changed.
func (t *Table) Host(host string) *Values {
	if t == nil {
		return &none
	}
	n := t.node(host)
	if n == nil {
		return &none
	}
	return &n.host
}

// URL returns the settings that hold for u. They must not be changed.
func (t *Table) URL(u weburl.URL) *Values {
	if t == nil {
		return &none
	}
	n := t.node(u.Host())
	switch {
	case n == nil:
		return &none
	case !n.narrow:
		return &n.host
	}
	which := make([]byte, (len(n.rules)+7)/8)
	for i, r := range n.rules {
		if r.Prefix.has(u) {
			which[i/8] |= 1 << (i % 8)
		}
	}
	if v, ok := n.merged.Load(string(which)); ok {
		return v.(*Values)
	}
	v := &Values{}
	for i, r := range n.rules {
		if which[i/8]&(1<<(i%8)) != 0 {
			*v = v.over(&r.Values)
		}
	}
	// The number of combinations is small: the paths of rules that hold for one URL are each other's beginnings.
	n.merged.Store(string(which), v)
	return v
}

// Rules returns the rules that hold for u, the most specific one first.
func (t *Table) Rules(u weburl.URL) []*Rule {
	if t == nil {
		return nil
	}
	rs := slices.DeleteFunc(slices.Clone(t.rules), func(r *Rule) bool { return !r.Prefix.Has(u) })
	slices.Reverse(rs)
	return rs
}

// Decides returns the rule that gives a setting its value for u, or nil.
func (t *Table) Decides(u weburl.URL, key string) *Rule {
	if t == nil {
		return nil
	}
	n := t.node(u.Host())
	if n == nil {
		return nil
	}
	for _, r := range slices.Backward(n.rules) {
		if slices.Contains(r.keys, key) && r.Prefix.has(u) {
			return r
		}
	}
	return nil
}

// DecidesHost is Decides for a setting of whole hosts.
func (t *Table) DecidesHost(host, key string) *Rule {
	if t == nil {
		return nil
	}
	n := t.node(host)
	if n == nil {
		return nil
	}
	for _, r := range slices.Backward(n.rules) {
		if r.Prefix.WholeHost() && slices.Contains(r.keys, key) {
			return r
		}
	}
	return nil
}

// Withheld returns the name of a secret field that the settings for u have and that is not sent to u, because of u's
// scheme or port, and the prefix that sets it. name is "" if there is none.
func (t *Table) Withheld(u weburl.URL) (name, prefix string) {
	for _, h := range t.URL(u).Headers {
		if h.Goes(u) {
			continue
		}
		for _, r := range t.Rules(u) {
			if slices.ContainsFunc(r.Values.Headers, func(o Header) bool { return strings.EqualFold(o.Name, h.Name) }) {
				return h.Name, r.Text
			}
		}
	}
	return "", ""
}

// HasDepth reports whether a rule sets a depth.
func (t *Table) HasDepth() bool {
	return t != nil && slices.ContainsFunc(t.rules, func(r *Rule) bool { return r.Values.Depth != nil })
}

// HasHostDepth reports whether a rule bounds the depth in a host.
func (t *Table) HasHostDepth() bool { return t != nil && t.hostDepth }

// Digest returns a text that is the same for tables with the same rules, without regard to secret values. It is
// empty for an empty Table.
func (t *Table) Digest() string {
	if t == nil {
		return ""
	}
	return t.digest
}

// digestOf returns the digest of parsed entries.
func digestOf(entries []Entry) string {
	lines := map[string]bool{}
	for _, e := range Redact(entries) {
		p, err := ParsePrefix(e.Prefix)
		if err != nil {
			continue // New has refused it
		}
		for _, s := range e.Settings {
			lines[fmt.Sprintf("%s %s %q", p, s.Key, s.Values)] = true
		}
	}
	h := sha256.New()
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintln(h, line)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// over returns t with the rules of another Table in front: its settings replace those of the same prefixes.
func (t *Table) over(front *Table) *Table {
	if t == nil || front == nil {
		return cmp.Or(t, front)
	}
	rules := slices.Clone(t.rules)
	at := map[Prefix]int{}
	for i, r := range rules {
		at[r.Prefix] = i
	}
	for _, r := range front.rules {
		i, ok := at[r.Prefix]
		if !ok {
			rules = append(rules, r)
			continue
		}
		both := *rules[i]
		both.Values = both.Values.over(&r.Values)
		both.keys = slices.Compact(slices.Sorted(slices.Values(slices.Concat(both.keys, r.keys))))
		rules[i] = &both
	}
	both := newTable(rules)
	both.digest = t.digest
	return both
}

// A Live holds the Table in force, which may be replaced while the crawl runs. Nil holds the empty Table.
type Live struct {
	table atomic.Pointer[Table]

	mu          sync.Mutex // guards the fields below
	base, front *Table     // of which table consists
}

// Table returns the Table in force.
func (l *Live) Table() *Table {
	if l == nil {
		return nil
	}
	return l.table.Load()
}

// Set replaces the Table, without what Lay has put in front. All callers of Table get it from now on.
func (l *Live) Set(t *Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base = t
	l.table.Store(t.over(l.front))
}

// Lay puts the rules of a Table in front of those that Set has given, in place of the Table of the call before.
func (l *Live) Lay(front *Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.front = front
	l.table.Store(l.base.over(front))
}
