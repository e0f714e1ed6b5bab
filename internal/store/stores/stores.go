// Package stores answers: which object store does this URL name, and what may its user do there?
//
// Open knows all kinds of stores. Check tries on a store what a crawl needs, and says in words what fails.
package stores

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/object/folder"
	"github.com/orbweaver/orbweaver/internal/store/object/s3"
)

// A Place is a store that a user names.
type Place struct {
	URL string         // s3://bucket/prefix or file:///directory
	Env s3.Environment // where S3 finds its endpoint and credentials
	S3  s3.Options
	// Rate bounds the bytes a second that are sent. Zero means no bound.
	Rate int64
	// Options are those of S3 that a user gives, as NAME=VALUE; they come after S3. See CheckOptions.
	Options []string
	// Backend is the store, for a program that has one of its own. Then URL is its name.
	Backend object.Backend
}

// Open returns the store of a place. It asks a store of S3 nothing.
func Open(fsys disk.FS, p Place, c object.Config) (*object.Store, error) {
	if c.Rate = p.Rate; p.Backend != nil {
		return object.New(p.Backend, p.URL, c), nil
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Scheme != "s3" && u.Scheme != "file" {
		return nil, fmt.Errorf("%q names no store: give s3://bucket/prefix or file:///directory", p.URL)
	}
	if err := errors.Join(p.CheckOptions(), readOptions(p.Options, &p.S3)); err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		if u.Host != "" || u.User != nil || u.RawQuery != "" || !strings.HasPrefix(u.Path, "/") {
			return nil, fmt.Errorf("%q: give an absolute path, such as file:///mnt/archive", u.Redacted())
		}
		b, err := folder.Open(fsys, filepath.FromSlash(u.Path))
		if err != nil {
			return nil, err
		}
		return object.New(b, b.Base(), c), nil
	}
	b, err := s3.Open(u, p.Env, p.S3)
	if err != nil {
		if u.User != nil {
			p.URL = u.Redacted()
		}
		return nil, fmt.Errorf("%s: %w", p.URL, err)
	}
	return object.New(b, b.Base(), c), nil
}

// CheckConfig is for a store that is only tried: a person waits for the answer.
var CheckConfig = object.Config{Tries: 3}

// A Finding is what a store does with one kind of request.
type Finding struct {
	What string
	OK   bool
	Must bool   // a crawl cannot do without it
	Note string // what is done instead, or why it fails
}

// A checked store is one that Check tries.
type checked struct {
	ctx   context.Context // of Check
	store *object.Store
	dir   string
	found []Finding
}

// lockTime is how long the object stays with which TryOut tries the lock of a store.
const lockTime = time.Minute

// TryOut opens a place and tries what a crawl does there, with its options. It returns the store for Print.
func TryOut(ctx context.Context, fsys disk.FS, p Place) (*object.Store, []Finding, error) {
	if err := p.CheckOptions(); err != nil {
		return nil, nil, fmt.Errorf("option %w", err)
	}
	if err := readOptions(p.Options, &p.S3); err != nil {
		return nil, nil, err
	}
	if p.Options = nil; p.S3.Retain > 0 {
		p.S3.Retain = lockTime
	}
	s, err := Open(fsys, p, CheckConfig)
	if err != nil {
		return nil, nil, err
	}
	return s, check(ctx, s, p.S3), nil
}

// check tries a store. It writes some small objects below .orbweaver-check-RANDOM/ and removes them, except one with a
// lock.
func check(ctx context.Context, s *object.Store, o s3.Options) []Finding {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	c := &checked{ctx: ctx, store: s, dir: ".orbweaver-check-" + hex.EncodeToString(random[:]) + "/"}
	text := "orbweaver store check\n"
	var written object.Info
	if !c.must("write", func() (err error) {
		written, err = s.Put(ctx, c.dir+"a", strings.NewReader(text), object.Condition{Mutable: true})
		return err
	}) {
		return c.found
	}
	if o.Encryption != "" {
		c.must("encrypt, "+o.Encryption, func() error {
			if written.Encryption != o.Encryption {
				return fmt.Errorf("the store was asked to, and says that it has not: its encryption is %q",
					written.Encryption)
			}
			return nil
		})
	}
	c.must("read a range", func() error {
		b, err := s.Read(ctx, c.dir+"a", 10, 5)
		if err == nil && !bytes.Equal(b, []byte(text[10:15])) {
			err = fmt.Errorf("%w: it answered with other bytes", object.ErrAnswer)
		}
		return err
	})
	c.must("list", func() error {
		p, err := s.List(ctx, c.dir, "", 10)
		if err == nil && (len(p.Objects) != 1 || p.Objects[0].Key != c.dir+"a") {
			err = errors.New("the list lacks an object that was just written")
		}
		return err
	})
	c.must("list and abort uploads", func() error {
		_, err := s.Abort(ctx, c.dir, time.Time{})
		return err
	})
	c.must("delete", func() error {
		err := s.Delete(ctx, c.dir+"a")
		if err == nil {
			if _, err := s.Stat(ctx, c.dir+"a"); !errors.Is(err, object.ErrNotFound) {
				return errors.New("the object is still there")
			}
		}
		return err
	})
	if o.Retention != "" {
		c.must("lock, "+o.Retention, func() error {
			i, err := s.Put(ctx, c.dir+"locked", strings.NewReader(text), object.Condition{})
			defer func() {
				if err != nil {
					_ = s.Delete(ctx, c.dir+"locked") // best effort: some stores keep what they have refused
				}
			}()
			if err == nil && i.Retention != o.Retention {
				err = fmt.Errorf("the store was asked to, and says that it has not: the mode of the lock is %q",
					i.Retention)
			}
			return err
		})
	}
	c.abilities()
	return c.found
}

// must tries what a crawl needs.
func (c *checked) must(what string, try func() error) bool {
	err := try()
	f := Finding{What: what, OK: err == nil, Must: true}
	if err != nil {
		f.Note = err.Error()
	}
	c.found = append(c.found, f)
	return err == nil
}

// abilities adds what a crawl can do without.
func (c *checked) abilities() {
	a, err := c.store.Abilities(c.ctx)
	if err != nil { // Put has probed the store already
		c.found = append(c.found, Finding{What: "conditions", Must: true, Note: err.Error()})
		return
	}
	looks := "looked for before the write; two writers at the same moment are not told apart"
	for _, f := range []Finding{
		{"create only if absent", a.IfAbsent, false, looks},
		{"the same, in parts", a.IfAbsentParts, false, looks},
		{"replace by tag", a.IfTag, false, looks},
		{"check CRC-32C", a.Checksums, false, "MD5 is sent instead"},
		{"tell CRC-32C", a.Attests, false, "what the writer said is compared instead"},
	} {
		if f.OK {
			f.Note = ""
		}
		c.found = append(c.found, f)
	}
}

// Print writes findings as a table, and reports whether a crawl can use the store.
func Print(w io.Writer, s *object.Store, found []Finding) (usable bool, err error) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "store\t%s\n", s.Location(""))
	usable = true
	for _, f := range found {
		is := "yes"
		if !f.OK {
			is, usable = "no", usable && !f.Must
		}
		if f.Note != "" {
			fmt.Fprintf(t, "%s\t%s (%s)\n", f.What, is, f.Note)
		} else {
			fmt.Fprintf(t, "%s\t%s\n", f.What, is)
		}
	}
	return usable, t.Flush()
}
