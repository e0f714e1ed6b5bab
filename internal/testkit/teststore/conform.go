package teststore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// Conform runs the suite. open returns an empty store whose parts have PartSize bytes, such as the same server with
// another prefix. want is what the store is known to do with conditions and checksums.
func Conform(t *testing.T, open func(t *testing.T) *object.Store, want object.Abilities) {
	for _, c := range suite {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			c.run(&conformed{t, t.Context(), s, want})
		})
	}
}

// PartSize is that of the stores of the suite: the smallest of S3.
const PartSize = 5 << 20

// Config is that of the stores of the suite.
var Config = object.Config{PartSize: PartSize, Parallel: 3, Tries: 3}

type conformed struct {
	*testing.T
	ctx  context.Context // of the test
	s    *object.Store
	able object.Abilities
}

func (c *conformed) put(key, text string, when object.Condition) (object.Info, error) {
	return c.s.Put(c.ctx, key, strings.NewReader(text), when)
}

func (c *conformed) mustPut(key, text string) object.Info {
	c.Helper()
	return must.Get(c.put(key, text, object.Condition{}))(c.T)
}

// want checks what an object has.
func (c *conformed) want(key, text string) {
	c.Helper()
	if b := must.Get(c.s.ReadAll(c.ctx, key, 1<<20))(c.T); string(b) != text {
		c.Errorf("%s is %.50q, want %.50q", key, b, text)
	}
}

func (c *conformed) wantErr(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// list returns all keys, in pages of a size.
func (c *conformed) list(prefix string, most int) (keys []string) {
	c.Helper()
	for after := ""; ; {
		p := must.Get(c.s.List(c.ctx, prefix, after, most))(c.T)
		for _, i := range p.Objects {
			keys = append(keys, i.Key)
		}
		if after = p.Next; after == "" {
			return keys
		}
	}
}

var suite = []struct {
	name string
	run  func(c *conformed)
}{
	{"abilities", func(c *conformed) {
		if got := must.Get(c.s.Abilities(c.ctx))(c.T); got != c.able {
			c.Errorf("abilities %+v, want %+v", got, c.able)
		}
		if keys := c.list("", 10); len(keys) > 0 {
			c.Errorf("the probe has left %q", keys)
		}
	}},
	{"put, stat, get", func(c *conformed) {
		for _, text := range []string{"", "x", strings.Repeat("0123456789", 1000)} {
			i := c.mustPut("dir/a b+c&ü.warc.gz", text)
			if i.Size != int64(len(text)) || i.Sum != sumOf([]byte(text)) || i.Tag == "" ||
				i.Attested != c.able.Attests {
				c.Errorf("put %d bytes: %+v", len(text), i)
			}
			c.want("dir/a b+c&ü.warc.gz", text)
		}
		for _, r := range []struct{ off, n, want int64 }{{0, 3, 3}, {5, 5, 5}, {9999, 100, 1}, {10000, 1, 0},
			{20000, 5, 0}, {3, 0, 0}, {0, 1 << 20, 10000}} {
			b := must.Get(c.s.Read(c.ctx, "dir/a b+c&ü.warc.gz", r.off, r.n))(c.T)
			if int64(len(b)) != r.want || len(b) > 0 && b[0] != "0123456789"[r.off%10] {
				c.Errorf("read %d from %d: %d bytes %.20q, want %d", r.n, r.off, len(b), b, r.want)
			}
		}
		body := must.Get(c.s.Get(c.ctx, "dir/a b+c&ü.warc.gz", 10, 20))(c.T)
		if b := must.Get(io.ReadAll(body))(c.T); string(b) != "01234567890123456789" {
			c.Errorf("get: %q", b)
		}
		must.Do(c.T, body.Close())
		_, err := c.s.ReadAll(c.ctx, "dir/a b+c&ü.warc.gz", 100)
		c.wantErr("read a large object", err, object.ErrTooLarge)
	}},
	{"missing", func(c *conformed) {
		_, err := c.s.Stat(c.ctx, "none")
		c.wantErr("stat", err, object.ErrNotFound)
		_, err = c.s.Read(c.ctx, "none", 0, 10)
		c.wantErr("read", err, object.ErrNotFound)
		must.Do(c.T, c.s.Delete(c.ctx, "none"))
		c.mustPut("a", "x")
		must.Do(c.T, c.s.Delete(c.ctx, "a"))
		_, err = c.s.Stat(c.ctx, "a")
		c.wantErr("stat a deleted object", err, object.ErrNotFound)
	}},
	{"keys", func(c *conformed) {
		for _, key := range []string{"", "/a", "a/", "a//b", "../a", "a/../b", ".", "a\x00b", "a\nb", `a\b`, "\xff",
			strings.Repeat("x", 2000)} {
			_, err := c.put(key, "x", object.Condition{})
			c.wantErr(fmt.Sprintf("put %.20q", key), err, object.ErrKey)
			_, err = c.s.Stat(c.ctx, key)
			c.wantErr(fmt.Sprintf("stat %.20q", key), err, object.ErrKey)
			c.wantErr(fmt.Sprintf("delete %.20q", key), c.s.Delete(c.ctx, key), object.ErrKey)
		}
	}},
	{"list", func(c *conformed) {
		want := []string{"a-b", "a/1", "a/2", "a/b/3", "a0", "b"}
		for _, key := range want {
			c.mustPut(key, key)
		}
		for _, most := range []int{1, 2, 4, 6, 1000} {
			if got := c.list("", most); !slices.Equal(got, want) {
				c.Errorf("pages of %d: %q, want %q", most, got, want)
			}
			if got := c.list("a/", most); !slices.Equal(got, want[1:4]) {
				c.Errorf("a/, pages of %d: %q, want %q", most, got, want[1:4])
			}
		}
		if got := c.list("none/", 10); len(got) > 0 {
			c.Errorf("none/: %q", got)
		}
	}},
	{"if absent", func(c *conformed) {
		must.Get(c.put("a", "one", object.Condition{IfAbsent: true}))(c.T)
		for text, same := range map[string]bool{"one": true, "two": false} {
			_, err := c.put("a", text, object.Condition{IfAbsent: true})
			var exists *object.ExistsError
			if !errors.As(err, &exists) || exists.Same != same {
				c.Errorf("put %q again: %v", text, err)
			}
		}
		c.want("a", "one")
	}},
	{"if tag", func(c *conformed) {
		first := must.Get(c.put("a", "one", object.Condition{Mutable: true}))(c.T)
		second := must.Get(c.put("a", "two", object.Condition{IfTag: first.Tag, Mutable: true}))(c.T)
		if second.Tag == first.Tag {
			c.Error("the tag did not change")
		}
		_, err := c.put("a", "three", object.Condition{IfTag: first.Tag, Mutable: true})
		c.wantErr("replace by an old tag", err, object.ErrChanged)
		c.want("a", "two")
		_, err = c.put("none", "x", object.Condition{IfTag: first.Tag, Mutable: true})
		c.wantErr("replace a missing object", err, object.ErrChanged)
	}},
	{"parts", func(c *conformed) {
		data := make([]byte, 3*PartSize+12345)
		for i, r := 0, rand.New(rand.NewPCG(1, 2)); i+8 <= len(data); i += 8 {
			v := r.Uint64()
			copy(data[i:], []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24), byte(v >> 32), byte(v >> 40)})
		}
		i := must.Get(c.s.Put(c.ctx, "large", bytes.NewReader(data), object.Condition{IfAbsent: true}))(c.T)
		if i.Size != int64(len(data)) || i.Sum != sumOf(data) || i.Attested != c.able.Attests {
			c.Errorf("%+v, want the sum %s", i, sumOf(data))
		}
		if b := must.Get(c.s.Read(c.ctx, "large", 0, int64(len(data))))(c.T); !bytes.Equal(b, data) {
			c.Error("the object has other bytes")
		}
		_, err := c.s.Put(c.ctx, "large", bytes.NewReader(data), object.Condition{IfAbsent: true})
		var exists *object.ExistsError
		if !errors.As(err, &exists) || !exists.Same {
			c.Errorf("again: %v", err)
		}
		if n := must.Get(c.s.Abort(c.ctx, "", time.Now().Add(time.Hour)))(c.T); n != 0 {
			c.Errorf("%d uploads are left", n)
		}
	}},
	{"orphans", func(c *conformed) {
		must.Get(c.s.Abilities(c.ctx))(c.T)
		ctx, cancel := context.WithCancel(c.ctx)
		data := &cutting{Content: bytes.NewReader(make([]byte, 4*PartSize)), cut: cancel}
		if _, err := c.s.Put(ctx, "x/large", data, object.Condition{}); err == nil {
			c.Fatal("the upload was not cut")
		}
		must.Get(c.s.Abort(c.ctx, "x/", time.Now().Add(time.Hour)))(c.T) // the failed upload may have been aborted
		if n := must.Get(c.s.Abort(c.ctx, "", time.Now().Add(time.Hour)))(c.T); n != 0 {
			c.Errorf("%d uploads are left", n)
		}
		_, err := c.s.Stat(c.ctx, "x/large")
		c.wantErr("stat", err, object.ErrNotFound)
	}},
}

// A cutting content ends the context when it is read for the second time at some place.
type cutting struct {
	object.Content
	cut context.CancelFunc
	n   int64
}

func (c *cutting) ReadAt(b []byte, off int64) (int, error) {
	if off == 2*PartSize {
		if c.n++; c.n == 2 {
			c.cut()
		}
	}
	return c.Content.ReadAt(b, off)
}
