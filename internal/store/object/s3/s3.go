// Package s3 answers: how does an S3 store keep objects?
//
// It makes the requests of an object.Backend, one attempt each, and says in plain words what an answer means. It
// follows no redirect, so that credentials reach the endpoint alone. It bounds the answers, except the content of
// objects, which its reader bounds. Nothing here reads the environment of the process: an Environment is passed in.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/object"
)

// Options say how objects are kept. The zero Options leave it to the bucket.
type Options struct {
	// Encryption is "", "AES256" (SSE-S3) or "aws:kms" (SSE-KMS), and Key the id of the KMS key; "" is the bucket's.
	Encryption, Key string
	// Retention is "", "GOVERNANCE" or "COMPLIANCE": for the time Retain after the write nobody can change or delete an
	// object. The bucket must have object lock.
	Retention string
	Retain    time.Duration
	Clock     clock.Clock // tells when an object is written; nil means the system's
	// Class is the storage class of the objects, such as STANDARD_IA. Empty: the store's default.
	Class string
	// PathStyle asks for https://endpoint/bucket/key also where https://bucket.endpoint/key would do, whatever the
	// profile says.
	PathStyle bool
	// Agent is the name and version of the program, such as "orbweaver/1.2".
	Agent string
}

// Check returns an error that says what is wrong with the options.
func (o Options) Check() error {
	switch {
	case o.Encryption != "" && o.Encryption != "AES256" && o.Encryption != "aws:kms":
		return fmt.Errorf("encryption %q: give AES256 or aws:kms", o.Encryption)
	case o.Key != "" && o.Encryption != "aws:kms":
		return errors.New("a KMS key needs the encryption aws:kms")
	case o.Retention != "" && o.Retention != "GOVERNANCE" && o.Retention != "COMPLIANCE":
		return fmt.Errorf("retention %q: give GOVERNANCE or COMPLIANCE", o.Retention)
	case (o.Retention == "") != (o.Retain <= 0):
		return errors.New("retention needs a mode and a time for which it lasts")
	}
	return nil
}

// A Backend is a prefix of a bucket. It implements object.Backend.
type Backend struct {
	core           minio.Core
	creds          *credentials.Credentials
	secrets        *secrets
	bucket, prefix string // the prefix is empty or ends with a slash
	sse            encrypt.ServerSide
	options        Options
}

// Open returns the store that a URL names, such as s3://bucket/prefix. It makes no request.
func Open(u *url.URL, env Environment, o Options) (*Backend, error) {
	prefix := strings.Trim(u.Path, "/")
	switch {
	case u.Host == "":
		return nil, errors.New("the URL names no bucket: give s3://bucket/prefix")
	case u.User != nil:
		return nil, errors.New("the URL has a user name: credentials belong into AWS_ variables or ~/.aws/credentials")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the URL has more than a bucket and a prefix: give s3://bucket/prefix")
	case s3utils.CheckValidBucketName(u.Host) != nil: // the client would refuse each request
		return nil, fmt.Errorf("%.80q cannot be a bucket: a name has 3 to 63 lower-case letters, digits, '.' and '-', "+
			"and begins and ends with a letter or a digit", u.Host)
	case prefix != "" && !object.ValidKey(prefix):
		return nil, fmt.Errorf("the prefix %q: %w", prefix, object.ErrKey)
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	s, err := readSettings(env)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(env)
	if err != nil {
		return nil, err
	}
	secrets := &secrets{}
	creds := credentials.New(&chain{settings: s, secrets: secrets, client: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}})
	lookup := s.lookup
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	core, err := minio.NewCore(s.endpoint.Host, &minio.Options{Creds: creds, Secure: s.endpoint.Scheme == "https",
		Transport: bounds{transport}, Region: s.region, BucketLookup: lookup, MaxRetries: 1})
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", s.endpoint, err)
	}
	if name, version, ok := strings.Cut(o.Agent, "/"); ok {
		core.SetAppInfo(name, version)
	}
	b := &Backend{core: *core, creds: creds, secrets: secrets, bucket: u.Host, options: o}
	if prefix != "" {
		b.prefix = prefix + "/"
	}
	switch o.Encryption {
	case "AES256":
		b.sse = encrypt.NewSSE()
	case "aws:kms":
		if b.sse, err = encrypt.NewSSEKMS(o.Key, nil); err != nil {
			return nil, fmt.Errorf("encryption: %w", err)
		}
	}
	return b, nil
}

// Base returns the URL of the store, without credentials.
func (b *Backend) Base() string { return "s3://" + b.bucket + "/" + b.prefix }

// Endpoint returns the URL to which requests go.
func (b *Backend) Endpoint() string { return b.core.EndpointURL().String() }

// SignsContent implements object.Signer: TLS protects the content, and plain HTTP does not.
func (b *Backend) SignsContent() bool { return b.core.EndpointURL().Scheme == "http" }

// sumName is the metadata in which an object has its checksum, for stores that know none.
const sumName = "Orbweaver-Crc32c"

// putOptions returns the headers of a new object.
func (b *Backend) putOptions(sum object.Sum, when object.Condition) minio.PutObjectOptions {
	o := minio.PutObjectOptions{ServerSideEncryption: b.sse, UserMetadata: map[string]string{},
		StorageClass:         b.options.Class,
		DisableContentSha256: true} // of chunks: many stores do not read them
	if b.options.Retention != "" && !when.Mutable {
		o.Mode = minio.RetentionMode(b.options.Retention)
		o.RetainUntilDate = clock.Or(b.options.Clock).Now().UTC().Add(b.options.Retain).Truncate(time.Second)
	}
	if sum.CRC32C != "" {
		o.UserMetadata["X-Amz-Meta-"+sumName] = sum.CRC32C
	}
	return o
}

// condition adds the headers of a condition.
func condition(o *minio.PutObjectOptions, when object.Condition) {
	if when.IfAbsent {
		o.SetMatchETagExcept("*")
	}
	if when.IfTag != "" {
		o.SetMatchETag(when.IfTag)
	}
}

// again makes a request, and once more with new credentials if they have expired.
func (b *Backend) again(request func() error) error {
	err := b.explain(request())
	if errors.Is(err, object.ErrExpired) {
		b.creds.Expire()
		err = b.explain(request())
	}
	return err
}

// Put implements object.Backend.
func (b *Backend) Put(ctx context.Context, key string, c object.Content, sum object.Sum, when object.Condition) error {
	return b.again(func() error {
		o := b.putOptions(sum, when)
		if sum.MD5 == "" {
			o.UserMetadata["X-Amz-Checksum-Crc32c"] = sum.CRC32C
		}
		condition(&o, when)
		_, err := b.core.PutObject(ctx, b.bucket, b.prefix+key, body(c), c.Size(), sum.MD5, sum.SHA256, o)
		return err
	})
}

// body returns a reader of all of a content.
func body(c object.Content) io.Reader { return io.NewSectionReader(c, 0, c.Size()) }

// Begin implements object.Backend.
func (b *Backend) Begin(ctx context.Context, key string, sum object.Sum, when object.Condition) (id string, err error) {
	err = b.again(func() (err error) {
		o := b.putOptions(sum, when)
		if sum.MD5 == "" {
			o.UserMetadata["X-Amz-Checksum-Algorithm"] = "CRC32C"
			o.UserMetadata["X-Amz-Checksum-Type"] = "FULL_OBJECT"
		}
		id, err = b.core.NewMultipartUpload(ctx, b.bucket, b.prefix+key, o)
		return err
	})
	return id, err
}

// Part implements object.Backend.
func (b *Backend) Part(ctx context.Context, key, upload string, number int, c object.Content, sum object.Sum) (
	p object.Part, err error) {
	err = b.again(func() error {
		o := minio.PutObjectPartOptions{Md5Base64: sum.MD5, Sha256Hex: sum.SHA256, CustomHeader: http.Header{},
			DisableContentSha256: true}
		if sum.MD5 == "" {
			o.CustomHeader.Set("X-Amz-Checksum-Crc32c", sum.CRC32C)
		}
		part, err := b.core.PutObjectPart(ctx, b.bucket, b.prefix+key, upload, number, body(c), c.Size(), o)
		p = object.Part{Number: number, Size: c.Size(), Tag: part.ETag, Sum: sum}
		return err
	})
	return p, err
}

// Complete implements object.Backend.
func (b *Backend) Complete(ctx context.Context, key, upload string, parts []object.Part, sum object.Sum,
	when object.Condition) error {
	return b.again(func() error {
		o := minio.PutObjectOptions{UserMetadata: map[string]string{}}
		list := make([]minio.CompletePart, len(parts))
		for i, p := range parts {
			list[i] = minio.CompletePart{PartNumber: p.Number, ETag: p.Tag}
			if sum.MD5 == "" {
				list[i].ChecksumCRC32C = p.Sum.CRC32C
			}
		}
		if sum.MD5 == "" {
			o.UserMetadata["X-Amz-Checksum-Crc32c"] = sum.CRC32C
			o.UserMetadata["X-Amz-Checksum-Type"] = "FULL_OBJECT"
		}
		condition(&o, when)
		_, err := b.core.CompleteMultipartUpload(ctx, b.bucket, b.prefix+key, upload, list, o)
		return err
	})
}

// Abort implements object.Backend.
func (b *Backend) Abort(ctx context.Context, key, upload string) error {
	return b.again(func() error { return b.core.AbortMultipartUpload(ctx, b.bucket, b.prefix+key, upload) })
}

// Uploads implements object.Backend.
func (b *Backend) Uploads(ctx context.Context, prefix string, after object.Upload) (page []object.Upload, more bool,
	err error) {
	err = b.again(func() error {
		marker := ""
		if after.Key != "" {
			marker = b.prefix + after.Key
		}
		r, err := b.core.ListMultipartUploads(ctx, b.bucket, b.prefix+prefix, marker, after.ID, "", object.MaxList)
		page, more = nil, r.IsTruncated
		for _, u := range r.Uploads {
			key, ok := strings.CutPrefix(u.Key, b.prefix)
			if !ok {
				return fmt.Errorf("%w (it lists an upload outside of %s)", object.ErrAnswer, b.Base())
			}
			page = append(page, object.Upload{Key: key, ID: u.UploadID, Begun: u.Initiated})
		}
		return err
	})
	return page, more, err
}

// Get implements object.Backend.
func (b *Backend) Get(ctx context.Context, key string, offset, length int64) (body io.ReadCloser, n int64, err error) {
	return b.GetTagged(ctx, key, "", offset, length)
}

// GetTagged implements object.Tagged.
func (b *Backend) GetTagged(ctx context.Context, key, tag string, offset, length int64) (body io.ReadCloser, n int64,
	err error) {
	if length <= 0 {
		return http.NoBody, 0, nil
	}
	err = b.again(func() error {
		var o minio.GetObjectOptions
		if err := o.SetRange(offset, offset+length-1); err != nil {
			return fmt.Errorf("%w (%w)", object.ErrRefused, err)
		}
		if tag != "" {
			if err := o.SetMatchETag(tag); err != nil {
				return fmt.Errorf("%w (%w)", object.ErrRefused, err)
			}
		}
		r, info, header, err := b.core.GetObject(ctx, b.bucket, b.prefix+key, o)
		if err != nil {
			return err
		}
		body, n = r, info.Size
		if header.Get("Content-Range") == "" { // the whole object
			if n = min(n, length); offset > 0 {
				return errors.Join(fmt.Errorf("%w (it ignores ranges)", object.ErrAnswer), r.Close())
			}
		} else if !strings.HasPrefix(header.Get("Content-Range"), fmt.Sprintf("bytes %d-", offset)) {
			return errors.Join(fmt.Errorf("%w (it answers with another range)", object.ErrAnswer), r.Close())
		}
		if n < 0 {
			return errors.Join(fmt.Errorf("%w (no Content-Length)", object.ErrAnswer), r.Close())
		}
		return nil
	})
	if errors.Is(err, errRange) { // nothing from there on
		return http.NoBody, 0, nil
	}
	return body, n, err
}

// Stat implements object.Backend.
func (b *Backend) Stat(ctx context.Context, key string) (i object.Info, err error) {
	err = b.again(func() error {
		var o minio.StatObjectOptions
		o.Checksum = true
		s, err := b.core.StatObject(ctx, b.bucket, b.prefix+key, o)
		if err != nil {
			return err
		}
		i = object.Info{Key: key, Size: s.Size, Tag: s.ETag, Modified: s.LastModified}
		i.Said = s.UserMetadata[sumName]
		i.Encryption = s.Metadata.Get("X-Amz-Server-Side-Encryption")
		i.Retention = s.Metadata.Get("X-Amz-Object-Lock-Mode")
		if i.Sum = i.Said; s.ChecksumCRC32C != "" && s.ChecksumMode != "COMPOSITE" &&
			!strings.Contains(s.ChecksumCRC32C, "-") {
			i.Sum, i.Attested = s.ChecksumCRC32C, true
		}
		return nil
	})
	return i, err
}

// List implements object.Backend.
func (b *Backend) List(ctx context.Context, prefix, after string, max int) (list []object.Info, more bool, err error) {
	if after != "" {
		after = b.prefix + after
	}
	err = b.again(func() error {
		list, more = nil, false
		found := b.core.ListObjectsIter(withBudget(ctx), b.bucket, minio.ListObjectsOptions{Prefix: b.prefix + prefix,
			StartAfter: after, MaxKeys: max + 1, Recursive: true})
		for o := range found {
			if o.Err != nil {
				return o.Err
			}
			key, ok := strings.CutPrefix(o.Key, b.prefix)
			if !ok {
				return fmt.Errorf("%w (it lists an object outside of %s)", object.ErrAnswer, b.Base())
			}
			if more = len(list) == max; more {
				break
			}
			list = append(list, object.Info{Key: key, Size: o.Size, Tag: o.ETag, Modified: o.LastModified})
		}
		return nil
	})
	return list, more, err
}

// Delete implements object.Backend.
func (b *Backend) Delete(ctx context.Context, key string) error {
	err := b.again(func() error {
		return b.core.RemoveObject(ctx, b.bucket, b.prefix+key, minio.RemoveObjectOptions{})
	})
	if errors.Is(err, object.ErrNotFound) {
		return nil
	}
	return err
}
