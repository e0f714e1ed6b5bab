package image

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/object"
)

const (
	pointerName = "current.json"
	format      = "orbweaver-image-1"
	maxPointer  = 64 << 10
	// longest bounds how long a claim makes the next one wait, whatever a foreign pointer says.
	longest = time.Hour
)

// A pointer is the object that says which claim holds. It is replaced by its tag only. No two writes have the same
// content: each claim has drawn a name, and writes each state once.
type pointer struct {
	// Generation comes first: what is left of a torn pointer still tells it.
	Generation int64     `json:"generation"` // of the claim; the next one has the next number
	Claim      string    `json:"claim"`      // drawn for this claim
	Run        string    `json:"run"`        // drawn for the first claim of a run: see Join
	Format     string    `json:"format"`
	Holder     string    `json:"holder"`
	Began      time.Time `json:"began"`
	EndsMillis int64     `json:"ends_ms"`  // how long the holder, or an earlier one, may fetch after it was fenced
	Settled    bool      `json:"settled"`  // no earlier holder can fetch any more
	Released   bool      `json:"released"` // the holder has stopped, too
	Image      *imageRef `json:"image,omitempty"`
	Previous   *imageRef `json:"previous,omitempty"`
}

// An imageRef names an image.
type imageRef struct {
	Number int64     `json:"number"`
	Key    string    `json:"key"` // of its list, below the prefix
	Bytes  int64     `json:"bytes"`
	SHA256 string    `json:"sha256"`
	Taken  time.Time `json:"taken"`
}

// stamped is a pointer as the store has it.
type stamped struct {
	pointer
	text []byte
	tag  string // "": there is none
}

var drawnForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// draw draws a name for a claim or a run.
func draw() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// parsePointer reads a pointer that anybody may have written.
func parsePointer(b []byte) (p pointer, err error) {
	text, _, whole := bytes.Cut(b, []byte("\n"))
	if !whole {
		return p, fmt.Errorf("%w: its pointer ends early", ErrDamaged)
	}
	if err := decode(text, &p); err != nil {
		return p, fmt.Errorf("%w: its pointer: %w", ErrDamaged, err)
	}
	bad := func(what string, value any) error {
		return fmt.Errorf("%w: its pointer has %s %.100q", ErrDamaged, what, fmt.Sprint(value))
	}
	switch {
	case p.Format != format:
		return p, bad("the format", p.Format)
	case p.Generation < 1 || p.Generation > maxGeneration:
		return p, bad("the generation", p.Generation)
	case !drawnForm.MatchString(p.Claim) || !drawnForm.MatchString(p.Run):
		return p, bad("the run", p.Claim+" "+p.Run)
	case p.EndsMillis < 0 || p.Released && !p.Settled:
		return p, bad("the duration", p.EndsMillis)
	}
	for _, r := range []*imageRef{p.Image, p.Previous} {
		switch {
		case r == nil:
		case r.Number < 1 || r.Bytes < 1 || r.Bytes > maxList || len(r.SHA256) != 64:
			return p, bad("the image", *r)
		case !object.ValidKey(r.Key) || !strings.HasPrefix(r.Key, imagesDir):
			return p, bad("the list", r.Key)
		}
	}
	return p, nil
}

// decode reads one value of JSON and nothing else.
func decode(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after its end")
	}
	return nil
}

// ends is how long the holder may fetch after it was fenced.
func (p pointer) ends() time.Duration {
	return min(time.Duration(min(p.EndsMillis, 1<<40))*time.Millisecond, longest)
}

// encode writes a pointer as a line, and as many spaces: if a store keeps the first half only, nothing is lost.
func (p pointer) encode() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings, numbers and times
	}
	b = append(b, '\n')
	return append(b, bytes.Repeat([]byte(" "), len(b))...)
}

// readPointer returns the pointer. The tag is asked for first: if the pointer changes in between, a write by the tag
// fails. If it is damaged, the error is ErrDamaged, and text and tag are set.
func (p Place) readPointer(ctx context.Context) (s stamped, err error) {
	key := p.Prefix + pointerName
	i, err := p.Store.Stat(ctx, key)
	if errors.Is(err, object.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.tag = i.Tag
	if s.text, err = p.Store.ReadAll(ctx, key, maxPointer); err != nil {
		return s, err
	}
	if s.pointer, err = parsePointer(s.text); err != nil {
		err = fmt.Errorf("%s: %w", p.Store.Location(key), err)
	}
	return s, err
}

var (
	tornForm = regexp.MustCompile(`^\{"generation":([0-9]{1,9}),`)
	tornRun  = regexp.MustCompile(`,"run":"([0-9a-f]{16})",`)
)

// tornGeneration returns the generation in a damaged pointer, or 0.
func tornGeneration(b []byte) int64 {
	m := tornForm.FindSubmatch(b)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(m[1]), 10, 64) // nine digits
	return n
}

// A name is that of a list or a pack.
type name struct {
	generation int64
	claim      string
	attempt    int64
}

const (
	imagesDir, packsDir = "images/", "packs/"
	maxGeneration       = 999_999_999
)

func (n name) list() string {
	return fmt.Sprintf("%s%09d-%s-%09d.json", imagesDir, n.generation, n.claim, n.attempt)
}

func (n name) pack(i int) string {
	return fmt.Sprintf("%s%09d-%s-%09d-%06d.pack", packsDir, n.generation, n.claim, n.attempt, i)
}

var nameForm = regexp.MustCompile(
	`^(?:images/([0-9]{9})-([0-9a-f]{16})-([0-9]{9})\.json|packs/([0-9]{9})-([0-9a-f]{16})-([0-9]{9})-[0-9]{6}\.pack)$`)

// parseName reads the key of a list or a pack, below the prefix.
func parseName(key string) (n name, ok bool) {
	m := nameForm.FindStringSubmatch(key)
	if m == nil {
		return n, false
	}
	n.claim = m[2] + m[5]
	n.generation, _ = strconv.ParseInt(m[1]+m[4], 10, 64) // nine digits
	n.attempt, _ = strconv.ParseInt(m[3]+m[6], 10, 64)
	return n, true
}
