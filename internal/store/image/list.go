package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/object"
)

const (
	maxList   = 63 << 20 // bytes of a list
	maxPiece  = 4 << 20  // bytes of a piece before compression
	fullPack  = 4 << 20  // a pack that has as many bytes is sent
	maxPack   = fullPack + maxPiece
	maxNote   = 256 << 10
	maxFiles  = 1 << 20
	maxPieces = 1 << 22
)

// A list is the list of an image.
type list struct {
	Format     string          `json:"format"`
	Generation int64           `json:"generation"`
	Number     int64           `json:"number"`
	Taken      time.Time       `json:"taken"`
	Note       json.RawMessage `json:"note,omitempty"`
	Packs      []listedPack    `json:"packs"`
	Files      []*listedFile   `json:"files"`

	packs []*pack // those of Packs
	bytes int64   // of all files
}

type listedPack struct {
	Key   string `json:"key"`
	Bytes int64  `json:"bytes"`
}

// A listedFile is a file. Its pieces follow one another.
type listedFile struct {
	Name   string        `json:"name"`
	Bytes  int64         `json:"bytes"`
	Pieces []listedPiece `json:"pieces"`

	pieces []piece // those of Pieces
}

// A listedPiece is a part of a file, and where a pack has it.
type listedPiece struct {
	Bytes  int64  `json:"bytes"` // of the file
	SHA256 string `json:"sha256"`
	Pack   int    `json:"pack"` // index of Packs
	At     int64  `json:"at"`   // offset in the pack
	Stored int64  `json:"stored"`
	Zstd   bool   `json:"zstd,omitempty"` // compressed: Stored bytes are one frame
}

// A pack is an object with pieces.
type pack struct {
	key    string // below the prefix
	bytes  int64
	pieces []piece // while it is sent
}

// A piece is a part of a file, and where it is stored.
type piece struct {
	sum    digest
	bytes  int64
	pack   *pack
	at     int64
	stored int64
	zstd   bool
}

// maxBytes bounds the files of an image that Restore writes. The disk is the nearer bound.
const maxBytes = 64 << 40

// parseList reads a list that anybody may have written.
func parseList(b []byte) (*list, error) {
	l := &list{}
	if err := decode(b, l); err != nil {
		return nil, fmt.Errorf("%w: its list: %w", ErrDamaged, err)
	}
	bad := func(form string, args ...any) error {
		return fmt.Errorf("%w: its list has "+form, append([]any{ErrDamaged}, args...)...)
	}
	switch {
	case l.Format != format:
		return nil, bad("the format %.100q", l.Format)
	case l.Number < 1, l.Generation < 1:
		return nil, bad("the numbers %d and %d", l.Generation, l.Number)
	case len(l.Files) > maxFiles:
		return nil, bad("%d files, at most %d", len(l.Files), maxFiles)
	case len(l.Note) > maxNote:
		return nil, bad("a note of %d bytes, at most %d", len(l.Note), maxNote)
	}
	for _, p := range l.Packs {
		if _, ok := parseName(p.Key); !ok || !strings.HasPrefix(p.Key, packsDir) || p.Bytes < 0 || p.Bytes > maxPack {
			return nil, bad("the pack %.200q of %d bytes", p.Key, p.Bytes)
		}
		l.packs = append(l.packs, &pack{key: p.Key, bytes: p.Bytes})
	}
	kinds := map[string]bool{} // of each path: whether it is a file
	for _, f := range l.Files {
		if f == nil || !validName(f.Name) {
			return nil, bad("a file without a name that is a path below the folder")
		}
		if _, twice := kinds[f.Name]; twice {
			return nil, bad("%.200q twice", f.Name)
		}
		kinds[f.Name] = true
		for dir := path.Dir(f.Name); dir != "."; dir = path.Dir(dir) {
			isFile, ok := kinds[dir]
			if isFile {
				return nil, bad("%.200q as a file and as a folder", dir)
			}
			if ok {
				break
			}
			kinds[dir] = false
		}
		if err := l.resolve(f); err != nil {
			return nil, bad("%.200q with %w", f.Name, err)
		}
		if l.bytes += f.Bytes; l.bytes > maxBytes {
			return nil, bad("more than %d bytes", int64(maxBytes))
		}
	}
	return l, nil
}

// validName reports whether a list may have a file of this name: Restore writes none outside of its folder, and none
// that it needs itself.
func validName(s string) bool {
	first, _, _ := strings.Cut(s, "/")
	return object.ValidKey(s) && !strings.EqualFold(first, workName) && !strings.EqualFold(s, doneName) &&
		!strings.ContainsAny(s, `:*?"<>|`)
}

// resolve reads the pieces of a file.
func (l *list) resolve(f *listedFile) error {
	if len(f.Pieces) > maxPieces || f.Bytes < 0 {
		return fmt.Errorf("%d bytes in %d pieces", f.Bytes, len(f.Pieces))
	}
	f.pieces = make([]piece, len(f.Pieces))
	left := f.Bytes
	for i, p := range f.Pieces {
		if p.Pack < 0 || p.Pack >= len(l.packs) {
			return fmt.Errorf("a piece in pack %d of %d", p.Pack, len(l.packs))
		}
		in := l.packs[p.Pack]
		sum, err := hex.DecodeString(p.SHA256)
		if err != nil || len(sum) != sha256.Size || p.Bytes < 1 || p.Bytes > min(maxPiece, left) ||
			p.Stored < 1 || p.At < 0 || p.At > in.bytes || p.Stored > in.bytes-p.At || !p.Zstd && p.Stored != p.Bytes {
			return fmt.Errorf("a wrong piece %d", i)
		}
		left -= p.Bytes
		f.pieces[i] = piece{digest(sum), p.Bytes, in, p.At, p.Stored, p.Zstd}
	}
	if left != 0 {
		return fmt.Errorf("%d bytes, its pieces have %d", f.Bytes, f.Bytes-left)
	}
	return nil
}

// encode writes a list. It refers to the packs that its files need.
func (l *list) encode() ([]byte, error) {
	l.Packs, l.packs = []listedPack{}, nil
	at := map[*pack]int{}
	for _, f := range l.Files {
		f.Pieces = make([]listedPiece, len(f.pieces))
		for i, p := range f.pieces {
			n, ok := at[p.pack]
			if !ok {
				n = len(l.packs)
				at[p.pack], l.packs = n, append(l.packs, p.pack)
				l.Packs = append(l.Packs, listedPack{p.pack.key, p.pack.bytes})
			}
			f.Pieces[i] = listedPiece{p.bytes, hex.EncodeToString(p.sum[:]), n, p.at, p.stored, p.zstd}
		}
	}
	b, err := json.Marshal(l)
	if err == nil && (len(b) >= maxList || len(l.Files) > maxFiles) {
		err = fmt.Errorf("the list of %d files has %d bytes, at most %d", len(l.Files), len(b), maxList)
	}
	return append(b, '\n'), err
}

func (l *list) saved() Saved {
	return Saved{Generation: l.Generation, Number: l.Number, Taken: l.Taken, Files: len(l.Files), Bytes: l.bytes,
		Note: l.Note}
}

// readList reads the list that a pointer names. A reference without a checksum takes any list.
func (p Place) readList(ctx context.Context, r imageRef) (*list, imageRef, error) {
	b, err := p.Store.ReadAll(ctx, p.Prefix+r.Key, maxList)
	if err != nil {
		return nil, r, err
	}
	sum := sha256.Sum256(b)
	is := hex.EncodeToString(sum[:])
	l, err := parseList(b)
	if r.SHA256 != "" && is != r.SHA256 {
		err = fmt.Errorf("%w: the SHA-256 of its list is %s, want %.64s", ErrDamaged, is, r.SHA256)
	} else if err == nil && r.Number > 0 && l.Number != r.Number {
		err = fmt.Errorf("%w: its list has number %d, want %d", ErrDamaged, l.Number, r.Number)
	}
	if err != nil {
		return nil, r, fmt.Errorf("%s: %w", p.Store.Location(p.Prefix+r.Key), err)
	}
	r.Bytes, r.SHA256 = int64(len(b)), is
	return l, r, nil
}

// Look describes the newest image of a series without a claim. The error is ErrNone if there is none.
func Look(ctx context.Context, p Place) (Saved, error) {
	l, err := p.newest(ctx)
	if err != nil {
		return Saved{}, err
	}
	return l.saved(), nil
}

// newest reads the list of the newest image. A holder may replace the pointer and delete the list meanwhile.
func (p Place) newest(ctx context.Context) (*list, error) {
	for n := 1; ; n++ {
		at, err := p.readPointer(ctx)
		var l *list
		switch {
		case err != nil:
		case at.Image == nil:
			return nil, fmt.Errorf("%s: %w", p.Store.Location(p.Prefix), ErrNone)
		default:
			l, _, err = p.readList(ctx, *at.Image)
		}
		if err == nil || n == tries || !errors.Is(err, object.ErrNotFound) && !errors.Is(err, ErrDamaged) {
			return l, err
		}
	}
}
