package linklog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// parse reads a line into p, with head without its links. The strings of p share memory. It reads lines that this
// package wrote itself, and leaves all others to package json, which takes ten times as long.
func (p *PageLine) parse(line []byte, head bool) error {
	text := string(line)
	i := bytes.Index(line, []byte(`,"links":`)) // within a string, quotes are escaped
	if head && i >= 0 {
		text = text[:i] + "}"
	}
	*p = PageLine{Links: p.Links[:0]}
	if c := (cursor{text}); !c.page(p) {
		*p = PageLine{}
		if err := json.Unmarshal([]byte(text), p); err != nil {
			return fmt.Errorf("%w: %w", errLine, err)
		}
		p.linked = p.Links != nil
	}
	p.linked = p.linked || i >= 0
	if p.URL == "" || p.Time.IsZero() || strings.IndexByte(p.URL, 0) >= 0 {
		return fmt.Errorf("%w: it has no url or no time", errLine)
	}
	return nil
}

// A cursor reads JSON without white space from the front of a text. Its methods return false if there is something
// else.
type cursor struct{ s string }

// is skips the text s.
func (c *cursor) is(s string) bool {
	rest, ok := strings.CutPrefix(c.s, s)
	c.s = rest
	return ok
}

// page reads a line.
func (c *cursor) page(p *PageLine) bool {
	var at string
	if !c.is(`{"url":`) || !c.text(&p.URL) || !c.is(`,"time":`) || !c.text(&at) || !c.is(`,"status":`) ||
		!c.number(&p.Status) {
		return false
	}
	t, err := time.Parse(time.RFC3339, at)
	if p.Time = t; err != nil {
		return false
	}
	if strings.HasPrefix(c.s, `,"error":`) && (!c.is(`,"error":`) || !c.text(&p.Error)) {
		return false
	}
	if strings.HasPrefix(c.s, `,"links":`) && (!c.is(`,"links":[`) || !c.links(p)) {
		return false
	}
	if strings.HasPrefix(c.s, `,"left_out":`) && (!c.is(`,"left_out":`) || !c.number(&p.LeftOut)) {
		return false
	}
	return c.s == "}"
}

// links reads the links behind the bracket.
func (c *cursor) links(p *PageLine) bool {
	if c.is("]") {
		return true
	}
	for ok := true; ok; ok = c.comma() {
		var l Link
		if !c.is("[") || !c.text(&l.Target) || l.Target == "" {
			return false
		}
		for _, to := range []*string{&l.Kind, &l.Rel, &l.Anchor} {
			if !strings.HasPrefix(c.s, ",") {
				break
			}
			if !c.is(",") || !c.text(to) {
				return false
			}
		}
		if !c.is("]") {
			return false
		}
		p.Links = append(p.Links, l)
	}
	return c.is("]")
}

func (c *cursor) comma() bool {
	if !strings.HasPrefix(c.s, ",") {
		return false
	}
	c.s = c.s[1:]
	return true
}

// text reads a string.
func (c *cursor) text(to *string) bool {
	if !c.is(`"`) {
		return false
	}
	n := strings.IndexByte(c.s, '"')
	if n < 0 {
		return false
	}
	if plain := c.s[:n]; strings.IndexByte(plain, '\\') < 0 {
		*to, c.s = plain, c.s[n+1:]
		return true
	}
	for n = 0; n < len(c.s) && c.s[n] != '"'; n++ {
		if c.s[n] == '\\' {
			n++
		}
	}
	if n >= len(c.s) {
		return false
	}
	err := json.Unmarshal([]byte(`"`+c.s[:n+1]), to)
	c.s = c.s[n+1:]
	return err == nil
}

// number reads an integer.
func (c *cursor) number(to *int) bool {
	n := 0
	for n < len(c.s) && (c.s[n] >= '0' && c.s[n] <= '9' || c.s[n] == '-') {
		n++
	}
	v, err := strconv.Atoi(c.s[:n])
	*to, c.s = v, c.s[n:]
	return err == nil
}
