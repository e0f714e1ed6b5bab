package boundary_test

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/classify/builtin"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// The near hash sends near-duplicates to one place, the exact hash does not. Pages without shingles, and equal pages,
// have the same place in both.
func TestContentHash(t *testing.T) {
	sorted := func(p *boundary.Pages, body string) link.Destination {
		t.Helper()
		head := "HTTP/1.1 200 OK\r\n\r\n"
		x := &warc.Exchange{URL: "http://a.example/", Response: warc.Bytes(head + body), HTTP: true, HeadLen: len(head)}
		to, ok, err := p.Sort(x, func(dst []byte) ([]byte, []byte, error) { return append(dst, body...), nil, nil })
		if err != nil || !ok {
			t.Fatalf("%.40q stays where it is: %v", body, err)
		}
		return to
	}
	exact, near := boundary.New(boundary.Config{}), boundary.New(boundary.Config{Near: true})
	rng := rand.New(rand.NewPCG(1, 4)) // fixed, because the share varies
	const pairs, words = 400, 300
	same, places := 0, [3]int{}
	for range pairs {
		var text []string
		for range words {
			text = append(text, fmt.Sprintf("w%d", rng.Uint32()))
		}
		a := strings.Join(text, " ")
		text[rng.IntN(words)] = "other"
		b := strings.Join(text, " ")
		if sorted(exact, a) == sorted(exact, b) {
			t.Fatal("pages with one other word have the same exact hash")
		}
		to := sorted(near, a)
		if to != sorted(near, strings.ToUpper(a)) {
			t.Fatal("a page in upper case has another near hash")
		}
		if to == sorted(near, b) {
			same++
		}
		places[to.Hash>>32*3>>32]++
	}
	if got := float64(same) / pairs; got < 0.93 { // the similarity is about 0.967
		t.Errorf("%.3f of the near-duplicates have the same near hash, want about 0.967", got)
	}
	for i, n := range places {
		if n < pairs/5 {
			t.Errorf("%d of %d pages have a hash in third %d, want a third", n, pairs, i)
		}
	}
	if short := "four words are short"; sorted(near, short) != sorted(exact, short) {
		t.Error("a page without shingles has another hash than its payload")
	}
	if to, sum := sorted(exact, "x"), sha1.Sum([]byte("x")); to.Hash != binary.BigEndian.Uint64(sum[:]) {
		t.Errorf("the exact hash is %x, want the first 8 bytes of %x", to.Hash, sum)
	}
}

// By topic, an empty page has no category, so one agent keeps it. By hash it stays where it is, and so does a page
// that was cut off.
func TestSortEmpty(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	model := must.Get(classify.New(builtin.Topics(), builtin.Languages()))(t)
	topics := boundary.New(boundary.Config{Classifier: model})
	for _, c := range []struct {
		name     string
		p        *boundary.Pages
		x        warc.Exchange
		category string
	}{
		{"empty", topics, warc.Exchange{Response: warc.Bytes(head), HTTP: true, HeadLen: len(head)},
			classify.Unclassifiable},
		{"empty, by hash", boundary.New(boundary.Config{}), warc.Exchange{Response: warc.Bytes(head), HTTP: true,
			HeadLen: len(head)}, ""},
		{"cut off", topics, warc.Exchange{Response: warc.Bytes(head), HTTP: true, HeadLen: len(head),
			Truncated: "time"}, ""},
		{"no response", topics, warc.Exchange{HTTP: true}, ""},
		{"not HTTP", topics, warc.Exchange{Response: warc.Bytes(head)}, ""},
	} {
		c.x.URL = "http://a.example/"
		to, ok, err := c.p.Sort(&c.x, func(dst []byte) ([]byte, []byte, error) { return dst, nil, nil })
		if category := c.p.Category(to); err != nil || ok != (c.category != "") || category != c.category {
			t.Errorf("%s: category %q, %v, %v; want %q", c.name, category, ok, err, c.category)
		}
	}
}
