package rpc

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	// MaxPart bounds the bytes of a file in one call, MaxPages the pages.
	MaxPart  = 256 << 10
	MaxPages = 4096
	// MaxFiles bounds the files in an answer, maxFileName the name of one.
	MaxFiles    = 2000
	maxFileName = 200
	maxFileSize = 1 << 50
)

// A CopyKind says what the caller of Copy wants.
type CopyKind uint8

// The kinds of Copy.
const (
	CopyList  CopyKind = 1 + iota // the copies of its files
	CopyPart                      // to store a part of a file
	CopyDrop                      // that all copies of its files are dropped
	CopyPages                     // to know which pages are in copies
)

// A CopyFile is an archive file of the caller.
type CopyFile struct {
	Name   string
	Size   int64
	Digest [32]byte // SHA-256
}

// A Copy stores a part of a file, or asks what the receiver has copies of.
type Copy struct {
	Kind   CopyKind
	File   CopyFile // of a part
	Offset int64    // of Data in the file
	Data   []byte   // at most MaxPart; empty: how many bytes are there?
	// Agent and Instance are the lost agent that had the Pages, at most MaxPages.
	Agent    string
	Instance ID
	Pages    []link.Key
}

// A CopyAnswer is the answer to a Copy.
type CopyAnswer struct {
	Files []CopyFile // of CopyList, at most MaxFiles
	Have  int64      // of CopyPart: how many bytes are there
	Known []bool     // of CopyPages
}

// Copy stores a part of an archive file at the agent, or asks what it has copies of.
func (p *Peer) Copy(ctx context.Context, c Copy) (a CopyAnswer, err error) {
	err = p.call(ctx, CallCopy, func(ctx context.Context) error {
		res, err := unary[pb.CopyResponse](ctx, p, CallCopy, copyToWire(c))
		if err == nil {
			a, err = copyAnswerFromWire(res, len(c.Pages))
		}
		return err
	})
	return a, err
}

const pageKeyLen = 16 // octets of a page on the wire

func copyToWire(c Copy) *pb.CopyRequest {
	w := &pb.CopyRequest{Kind: uint32(c.Kind), Offset: uint64(c.Offset), Data: c.Data}
	switch c.Kind {
	case CopyPart:
		w.File = fileToWire(c.File)
	case CopyPages:
		w.Agent, w.Instance = c.Agent, c.Instance[:]
		for _, k := range c.Pages {
			w.Pages = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(w.Pages, k.Host), k.Path)
		}
	}
	return w
}

func copyFromWire(w *pb.CopyRequest) (c Copy, err error) {
	kind := CopyKind(min(w.Kind, uint32(CopyPages)+1))
	n := len(w.Pages) / pageKeyLen
	switch {
	case kind < CopyList || kind > CopyPages:
		return c, malformed("kind %d of a copy", w.Kind)
	case len(w.Data) > MaxPart || n > MaxPages:
		return c, fmt.Errorf("%w: %d octets of a file, %d pages", ErrTooLarge, len(w.Data), n)
	case kind != CopyPart && (w.File != nil || w.Offset != 0 || len(w.Data) > 0),
		kind != CopyPages && (w.Agent != "" || len(w.Instance)+len(w.Pages) > 0):
		return c, malformed("a copy of kind %d with fields of another", w.Kind)
	}
	c.Kind = kind
	switch kind {
	case CopyPart:
		if c.File, err = fileFromWire(w.File); err != nil {
			return Copy{}, err
		}
		if w.Offset > uint64(c.File.Size) || uint64(len(w.Data)) > uint64(c.File.Size)-w.Offset {
			return Copy{}, malformed("%d octets at offset %d of %d", len(w.Data), w.Offset, c.File.Size)
		}
		c.Offset, c.Data = int64(w.Offset), w.Data
	case CopyPages:
		if err := CheckName(w.Agent); err != nil {
			return Copy{}, malformed("%v", err)
		}
		if len(w.Instance) != len(c.Instance) || n == 0 || len(w.Pages)%pageKeyLen != 0 {
			return Copy{}, malformed("%d octets of an instance, %d of pages", len(w.Instance), len(w.Pages))
		}
		c.Agent, c.Instance = w.Agent, ID(w.Instance)
		for b := w.Pages; len(b) > 0; b = b[pageKeyLen:] {
			host, path := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
			c.Pages = append(c.Pages, link.Key{Host: host, Path: path})
		}
	}
	return c, nil
}

func fileToWire(f CopyFile) *pb.CopyFile {
	return &pb.CopyFile{Name: f.Name, Size: uint64(f.Size), Digest: f.Digest[:]}
}

func fileFromWire(w *pb.CopyFile) (f CopyFile, err error) {
	if w == nil || w.Name == "" || len(w.Name) > maxFileName || w.Size > maxFileSize || len(w.Digest) != len(f.Digest) {
		return f, malformed("an archive file of %d octets, named %.20q", w.GetSize(), w.GetName())
	}
	return CopyFile{w.Name, int64(w.Size), [32]byte(w.Digest)}, nil
}

func copyAnswerToWire(a CopyAnswer) *pb.CopyResponse {
	w := &pb.CopyResponse{Have: uint64(a.Have), Known: knownBitsToWire(a.Known).Known}
	for _, f := range a.Files {
		w.Files = append(w.Files, fileToWire(f))
	}
	return w
}

func copyAnswerFromWire(w *pb.CopyResponse, pages int) (a CopyAnswer, err error) {
	if len(w.Files) > MaxFiles || w.Have > maxFileSize {
		return a, malformed("%d copies, %d octets", len(w.Files), w.Have)
	}
	a.Have = int64(w.Have)
	for _, f := range w.Files {
		file, err := fileFromWire(f)
		if err != nil {
			return CopyAnswer{}, err
		}
		a.Files = append(a.Files, file)
	}
	if a.Known, err = knownBitsFromWire(&pb.KnownResponse{Known: w.Known}, pages); err != nil {
		return CopyAnswer{}, err
	}
	return a, nil
}
