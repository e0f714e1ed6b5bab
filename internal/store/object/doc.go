// Package object answers: how does a crawl keep its files where they outlive its machines?
//
//	Put: checksum -> (parts ->) Backend -> stat: is it there, whole?
//
// A Backend makes single requests to one object store. Package s3 has the one for S3, package folder the one for a
// mounted directory, and package teststore one that fails as real stores do. A Store adds what all of them need:
//
//   - It cuts large files into parts, and sends a checksum with each.
//   - It repeats what failed for the moment, more and more slowly, until the context ends.
//   - It finds out which conditions the store keeps, and looks before it writes if the store keeps none.
//   - It asks for each object after it was written. An object that the store confirmed and does not have is sent again.
//   - It bounds what a hostile store can make it read.
//
// # Invariants
//
//   - Put returns nil only if the store has said, after the writing, that it has an object of this size and checksum.
//   - A reader sees an object whole or not at all.
//   - No error and no message contains credentials.
//   - Keys that cannot be a relative path of a file are neither written nor listed.
package object

import (
	"context"
	"io"
	"time"
)

// Content is what an object is to contain. It does not change while it is written. *bytes.Reader, *strings.Reader and
// *io.SectionReader are Contents. Several goroutines may call ReadAt at once.
type Content interface {
	io.ReaderAt
	Size() int64
}

// A Condition says when Put may write. The zero Condition writes always.
type Condition struct {
	// IfAbsent writes only if there is no object of this key. Otherwise the error is an *ExistsError.
	IfAbsent bool
	// IfTag writes only if the object has this Tag now. Otherwise the error is ErrChanged. Empty: any.
	IfTag string
	// Mutable says that the object will be replaced or deleted. It gets no retention. If Put finds other content after
	// it has written, another process has replaced it: ErrChanged. Otherwise Put writes it again.
	Mutable bool
}

// Info says what a store knows of an object.
type Info struct {
	Key  string
	Size int64 // bytes
	// Sum is the CRC-32C of the content in base64, or "" if the store does not know it. Objects in lists have none.
	Sum string
	// Attested says that the store has computed Sum from the bytes that it holds. Otherwise the writer said it.
	Attested bool
	// Said is the checksum that the writer gave, or "". If it is not Sum, the object is damaged.
	Said string
	// Tag changes with the content: S3 calls it ETag.
	Tag      string
	Modified time.Time
	// Encryption is how the store says that it encrypts the object, and Retention the mode in which it keeps the object
	// from being changed. Both are "" if the store does not say. Objects in lists have neither.
	Encryption, Retention string
}

// Same reports whether two objects have the same content, as far as is known. It is false if a checksum is missing.
func (i Info) Same(o Info) bool { return i.Size == o.Size && i.Sum != "" && i.Sum == o.Sum }

// A Page is a part of a list.
type Page struct {
	Objects []Info // in the order of their keys
	Next    string // list after this for the next page; "" at the end
	Strange int    // how many objects were left out because their keys cannot be names of files
}

// Sum has the checksums of a content or of a part.
type Sum struct {
	CRC32C string // in base64
	// MD5 is in base64, and "" if the store checks CRC32C. That of an object in parts is of the MD5 of its parts.
	MD5    string
	SHA256 string // in hexadecimal; "" if the Backend does not sign contents
}

// A Part is a part of an object that the store has received.
type Part struct {
	Number int // from 1
	Size   int64
	Tag    string
	Sum    Sum
}

// An Upload is an upload in parts that was begun and not completed.
type Upload struct {
	Key, ID string
	Begun   time.Time
}

// A Backend makes single requests to an object store: it repeats nothing. Keys are below its prefix. Its errors wrap
// those of this package. Safe for concurrent use.
type Backend interface {
	// Put writes a whole object. The error is ErrPrecondition if the condition does not hold, and ErrConflict if
	// another write was under way. A store that knows no conditions may ignore one, or answer ErrUnsupported.
	Put(ctx context.Context, key string, c Content, sum Sum, when Condition) error
	// Begin begins an upload in parts. The sum is that of the whole object.
	Begin(ctx context.Context, key string, sum Sum, when Condition) (upload string, err error)
	Part(ctx context.Context, key, upload string, number int, c Content, sum Sum) (Part, error)
	// Complete makes an object of the parts. The error is ErrNoUpload if there is no such upload (any more).
	Complete(ctx context.Context, key, upload string, parts []Part, sum Sum, when Condition) error
	Abort(ctx context.Context, key, upload string) error
	// Uploads lists uploads in parts whose keys begin with prefix, some of them at a time. after is the last one of the
	// page before.
	Uploads(ctx context.Context, prefix string, after Upload) (page []Upload, more bool, err error)
	// Get reads at most length bytes from offset. n is how many the body is to have: fewer if the object ends.
	Get(ctx context.Context, key string, offset, length int64) (body io.ReadCloser, n int64, err error)
	// Stat describes an object, or returns ErrNotFound.
	Stat(ctx context.Context, key string) (Info, error)
	// List returns objects whose keys begin with prefix and come after the key after, at most max of them, in order.
	List(ctx context.Context, prefix, after string, max int) (list []Info, more bool, err error)
	// Delete returns nil also if there is no such object.
	Delete(ctx context.Context, key string) error
}

// Tagged is a Backend that reads an object only if it has a tag.
type Tagged interface {
	// GetTagged is Get of the object that has a tag. If the object has another one, the error is ErrPrecondition.
	GetTagged(ctx context.Context, key, tag string, offset, length int64) (body io.ReadCloser, n int64, err error)
}

// Whole is a Backend that takes objects of any size by Put. It has no uploads in parts.
type Whole interface{ Whole() }

// A Signer is a Backend that may sign the content of its requests, because the network protects nothing.
type Signer interface{ SignsContent() bool }
