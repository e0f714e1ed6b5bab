package object

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/orbweaver/orbweaver/internal/clock"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C returns a checksum as an Info has it.
func CRC32C(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// SumOf returns the checksum of a content, as an Info has it.
func SumOf(c Content) (string, error) {
	sum := crc32.New(castagnoli)
	if err := sumPart(sum, c, 0, c.Size()); err != nil {
		return "", err
	}
	return CRC32C(sum.Sum32()), nil
}

// sums are the checksums of a content and of its parts.
type sums struct {
	whole Sum
	parts []Sum
}

// sumsOf reads a content once.
func (s *Store) sumsOf(c Content, partSize int64, withMD5 bool) (v sums, err error) {
	signer, ok := s.to.(Signer)
	signs := ok && signer.SignsContent()
	whole, ofParts := crc32.New(castagnoli), md5.New()
	for off := int64(0); off < c.Size() || off == 0; off += partSize {
		part, check, sign := crc32.New(castagnoli), md5.New(), sha256.New()
		to := []io.Writer{whole, part}
		if withMD5 {
			to = append(to, check)
		}
		if signs {
			to = append(to, sign)
		}
		if err := sumPart(io.MultiWriter(to...), c, off, min(partSize, c.Size()-off)); err != nil {
			return sums{}, err
		}
		sum := Sum{CRC32C: CRC32C(part.Sum32())}
		if withMD5 {
			sum.MD5 = base64.StdEncoding.EncodeToString(check.Sum(nil))
			ofParts.Write(check.Sum(nil))
		}
		if signs {
			sum.SHA256 = hex.EncodeToString(sign.Sum(nil))
		}
		v.parts = append(v.parts, sum)
	}
	v.whole = Sum{CRC32C: CRC32C(whole.Sum32())}
	if withMD5 {
		v.whole.MD5 = base64.StdEncoding.EncodeToString(ofParts.Sum(nil))
	}
	if len(v.parts) == 1 {
		v.whole = v.parts[0]
	}
	return v, nil
}

// sumPart writes a part of a content.
func sumPart(to io.Writer, c Content, off, n int64) error {
	got, err := io.CopyBuffer(to, onlyReader{io.NewSectionReader(c, off, n)}, make([]byte, min(256<<10, max(n, 1))))
	if err == nil && got < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read what is to be sent: %w", err)
	}
	return nil
}

type onlyReader struct{ io.Reader } // so that io.CopyBuffer uses its buffer

// repairs is how often Put writes an object again that the store has confirmed and does not have whole.
const repairs = 8

// Put writes an object, and returns what the store says of it afterwards. It returns no error only if the store then
// has the content: its size and its checksum.
func (s *Store) Put(ctx context.Context, key string, c Content, when Condition) (Info, error) {
	if err := s.check("write", key); err != nil {
		return Info{}, err
	}
	i, err := s.put(ctx, key, c, when)
	return i, s.fault("write", key, err)
}

func (s *Store) put(ctx context.Context, key string, c Content, when Condition) (Info, error) {
	able, err := s.abilities(ctx)
	if err != nil {
		return Info{}, err
	}
	p := &putting{s: s, key: key, c: c, when: when, able: able, partSize: s.partSize}
	if _, ok := s.to.(Whole); ok {
		p.partSize = max(c.Size(), 1)
	}
	if least := (c.Size() + maxParts - 1) / maxParts; p.partSize < least {
		p.partSize = (least + 1<<20 - 1) &^ (1<<20 - 1)
	}
	if p.sums, err = s.sumsOf(c, p.partSize, !able.Checksums); err != nil {
		return Info{}, err
	}
	p.want = Info{Key: key, Size: c.Size(), Sum: p.sums.whole.CRC32C}
	for round := 1; ; round++ {
		i, err := p.round(ctx)
		damaged, lost := errors.Is(err, ErrDamaged), errors.Is(err, ErrLost)
		switch {
		case (damaged || lost) && when.Mutable:
			return Info{}, fmt.Errorf("%w (%w)", ErrChanged, err)
		case !damaged && !lost && !errors.Is(err, ErrDigest) || round == repairs:
			return i, err
		case damaged:
			// The store has confirmed this content, and has another one: what is there is ours to replace.
			p.uncertain, p.when = true, Condition{}
			if able.IfTag {
				p.when.IfTag = i.Tag
			}
		}
		if !clock.Pause(ctx, firstWait) {
			return Info{}, errors.Join(err, ctx.Err())
		}
	}
}

// A putting is one object while it is written.
type putting struct {
	s         *Store
	key       string
	c         Content
	when      Condition
	able      Abilities
	partSize  int64
	sums      sums
	want      Info // what Stat is to say afterwards
	uncertain bool // an earlier request of this putting may have been carried out
}

// round writes the object once and looks at it. An error of ErrDamaged comes with what the store has.
func (p *putting) round(ctx context.Context) (Info, error) {
	inParts := len(p.sums.parts) > 1
	when, held := p.when, p.able.IfAbsent
	if inParts {
		held = p.able.IfAbsentParts
	}
	// A store that keeps no conditions is asked before; so is one to which much would be sent in vain.
	if p.when.IfAbsent && (!held || inParts) || p.when.IfTag != "" && !p.able.IfTag {
		if i, done, err := p.look(ctx); done || err != nil {
			return i, err
		}
	}
	if !held {
		when.IfAbsent = false
	}
	if !p.able.IfTag {
		when.IfTag = ""
	}
	var err error
	if inParts {
		err = p.sendParts(ctx, when)
	} else {
		err = p.s.try(ctx, p.c.Size(), func(ctx context.Context) error {
			return p.sent(p.s.to.Put(ctx, p.key, p.s.slowed(ctx, p.c), p.sums.whole, when))
		})
	}
	if errors.Is(err, ErrPrecondition) {
		i, done, err := p.look(ctx)
		if err == nil && !done { // the object that was in the way has gone
			err = ErrConflict
		}
		return i, err
	}
	if errors.Is(err, ErrNotFound) && when.IfTag != "" {
		return Info{}, ErrChanged
	}
	if err != nil {
		return Info{}, err
	}
	return p.verify(ctx)
}

// sent notes whether a request may have been carried out although it failed.
func (p *putting) sent(err error) error {
	p.uncertain = p.uncertain || err != nil && uncertain(err)
	return err
}

// look asks whether the condition holds. done says that the object is there, by an earlier request of this putting.
func (p *putting) look(ctx context.Context) (i Info, done bool, err error) {
	i, err = p.s.stat(ctx, p.key)
	switch {
	case errors.Is(err, ErrNotFound) && p.when.IfTag != "":
		return Info{}, false, ErrChanged
	case errors.Is(err, ErrNotFound):
		return Info{}, false, nil
	case err != nil:
		return Info{}, false, err
	}
	same := i.Same(p.want)
	switch {
	case same && p.uncertain:
		return i, true, nil
	case !same && i.Said == p.want.Sum && (p.uncertain || p.when.IfTag == ""):
		// The object that is to be there, but the store has not kept all of it.
		return i, false, fmt.Errorf("%w: %d of %d bytes", ErrDamaged, i.Size, p.want.Size)
	case p.when.IfTag != "" && i.Tag != p.when.IfTag:
		return Info{}, false, ErrChanged
	case p.when.IfTag != "":
		return Info{}, false, nil
	}
	return Info{}, false, &ExistsError{There: i, Same: same}
}

// looks is how often verify asks for an object that is not there. A store that shows its objects late gets this long:
// 0.2 + 0.4 + 0.8 + 1.6 s.
const looks = 5

// verify asks for the object that was written.
func (p *putting) verify(ctx context.Context) (i Info, err error) {
	for n, wait := 1, firstWait; ; n, wait = n+1, 2*wait {
		i, err = p.s.stat(ctx, p.key)
		if err == nil && i.Same(p.want) {
			return i, nil
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return Info{}, err
		}
		if n == looks {
			break
		}
		if !clock.Pause(ctx, wait) {
			return Info{}, ctx.Err()
		}
	}
	if err != nil {
		return Info{}, ErrLost
	}
	return i, fmt.Errorf("%w: %d bytes with CRC-32C %q, sent were %d with %q", ErrDamaged, i.Size, i.Sum, p.want.Size,
		p.want.Sum)
}

// sendParts sends the object in parts. If the upload is not there any more at its end, it begins again.
func (p *putting) sendParts(ctx context.Context, when Condition) error {
	for n := 1; ; n++ {
		err := p.upload(ctx, when)
		if !errors.Is(err, ErrNoUpload) && !errors.Is(err, ErrConflict) || n == repairs {
			return err
		}
		if i, err := p.s.stat(ctx, p.key); err == nil && i.Same(p.want) {
			return nil // the answer was lost
		}
	}
}

// abortTime is how long an upload that has failed may take to be aborted.
const abortTime = 10 * time.Second

// upload makes one upload in parts.
func (p *putting) upload(ctx context.Context, when Condition) (err error) {
	var id string
	err = p.s.try(ctx, 0, func(ctx context.Context) (err error) {
		id, err = p.s.to.Begin(ctx, p.key, p.sums.whole, when)
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !errors.Is(err, ErrNoUpload) { // best effort: Abort finds it later
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
			defer cancel()
			_ = p.s.to.Abort(last, p.key, id)
		}
	}()
	parts := make([]Part, len(p.sums.parts))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(p.s.parallel)
	for n := range parts {
		g.Go(func() error {
			off := int64(n) * p.partSize
			c := io.NewSectionReader(p.c, off, min(p.partSize, p.c.Size()-off))
			return p.s.try(gctx, c.Size(), func(ctx context.Context) (err error) {
				parts[n], err = p.s.to.Part(ctx, p.key, id, n+1, p.s.slowed(ctx, c), p.sums.parts[n])
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return p.s.try(ctx, 0, func(ctx context.Context) error {
		return p.sent(p.s.to.Complete(ctx, p.key, id, parts, p.sums.whole, when))
	})
}
