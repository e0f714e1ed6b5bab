package s3

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"unicode"

	"github.com/minio/minio-go/v7"

	"github.com/orbweaver/orbweaver/internal/store/object"
)

// errRange means that a range begins after the end of an object.
var errRange = errors.New("the range begins after the end of the object")

// codes are the reasons that S3 gives, in its own words.
var codes = map[string]error{
	"NoSuchKey":                       object.ErrNotFound,
	"NoSuchBucket":                    object.ErrNoBucket,
	"NoSuchUpload":                    object.ErrNoUpload,
	"InvalidPart":                     object.ErrNoUpload,
	"InvalidPartOrder":                object.ErrNoUpload,
	"PreconditionFailed":              object.ErrPrecondition,
	"ConditionalRequestConflict":      object.ErrConflict,
	"OperationAborted":                object.ErrConflict,
	"NotImplemented":                  object.ErrUnsupported,
	"BadDigest":                       object.ErrDigest,
	"InvalidDigest":                   object.ErrDigest,
	"XAmzContentChecksumMismatch":     object.ErrDigest,
	"XAmzContentSHA256Mismatch":       object.ErrDigest,
	"AccessDenied":                    object.ErrDenied,
	"AllAccessDisabled":               object.ErrDenied,
	"AccountProblem":                  object.ErrDenied,
	"InvalidAccessKeyId":              object.ErrWrongKeys,
	"XAdminUserNotFound":              object.ErrWrongKeys, // versitygw, with status 404
	"SignatureDoesNotMatch":           object.ErrWrongKeys,
	"InvalidToken":                    object.ErrWrongKeys,
	"InvalidClientTokenId":            object.ErrWrongKeys,
	"ExpiredToken":                    object.ErrExpired,
	"ExpiredTokenException":           object.ErrExpired,
	"TokenRefreshRequired":            object.ErrExpired,
	"RequestTimeTooSkewed":            object.ErrSkewed,
	"RequestExpired":                  object.ErrSkewed,
	"AuthorizationHeaderMalformed":    object.ErrRegion,
	"InvalidRegion":                   object.ErrRegion,
	"PermanentRedirect":               object.ErrRegion,
	"IllegalLocationConstraint":       object.ErrRegion,
	"TemporaryRedirect":               object.ErrRedirected,
	"SlowDown":                        object.ErrSlow,
	"SlowDownRead":                    object.ErrSlow,
	"SlowDownWrite":                   object.ErrSlow,
	"Throttling":                      object.ErrSlow,
	"ThrottlingException":             object.ErrSlow,
	"RequestLimitExceeded":            object.ErrSlow,
	"TooManyRequests":                 object.ErrSlow,
	"ServiceUnavailable":              object.ErrSlow,
	"RequestTimeout":                  object.ErrAway,
	"InternalError":                   object.ErrBroken,
	"XMinioStorageFull":               object.ErrFull,
	"InvalidRange":                    errRange,
	"ObjectLockConfigurationNotFound": object.ErrUnsupported,
}

// explain returns an error that wraps one of package object and says in the store's words what it answered, without
// credentials.
func (b *Backend) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	var u *url.Error
	at := err
	if errors.As(err, &u) { // without the URL
		at = u.Err
	}
	for _, known := range []error{object.ErrNoKeys, object.ErrAnswer, object.ErrRefused, object.ErrWrongKeys,
		object.ErrExpired, object.ErrAway} {
		if errors.Is(err, known) {
			return &plain{known, b.secrets.clean(strings.TrimPrefix(at.Error(), known.Error()+" "))}
		}
	}
	var r minio.ErrorResponse
	if errors.As(err, &r) && (r.StatusCode != 0 || codes[r.Code] != nil) {
		return &plain{reason(r), b.secrets.clean(said(r))}
	}
	return b.network(err)
}

// network explains why no answer came.
func (b *Backend) network(err error) error {
	at := b.core.EndpointURL().Host
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w (%s did not answer in time)", object.ErrAway, at)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("%w (the name %s is not known)", object.ErrAway, b.secrets.clean(dns.Name))
	case errors.As(err, &unknown), errors.As(err, &name):
		return fmt.Errorf("%w (the certificate of %s is not trusted: give its authority in AWS_CA_BUNDLE)",
			object.ErrRefused, at)
	}
	var u *url.Error
	if errors.As(err, &u) { // without the URL
		return &plain{object.ErrAway, b.secrets.clean(fmt.Sprintf("%s: %v", at, u.Err))}
	}
	return &plain{object.ErrAnswer, b.secrets.clean(fmt.Sprintf("%s: %v", at, err))}
}

// reason returns what an answer means.
func reason(r minio.ErrorResponse) error {
	if err := codes[r.Code]; err != nil {
		if err == object.ErrRegion && r.Region != "" {
			return fmt.Errorf("%w=%s", object.ErrRegion, r.Region)
		}
		return err
	}
	switch {
	case r.StatusCode == http.StatusNotFound:
		return object.ErrNotFound
	case r.StatusCode == http.StatusPreconditionFailed:
		return object.ErrPrecondition
	case r.StatusCode == http.StatusConflict:
		return object.ErrConflict
	case r.StatusCode == http.StatusUnauthorized:
		return object.ErrWrongKeys
	case r.StatusCode == http.StatusForbidden:
		return object.ErrDenied
	case r.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return errRange
	case r.StatusCode == http.StatusTooManyRequests, r.StatusCode == http.StatusServiceUnavailable:
		return object.ErrSlow
	case r.StatusCode == http.StatusNotImplemented:
		return object.ErrUnsupported
	case r.StatusCode >= 500:
		return object.ErrBroken
	case r.StatusCode >= 300 && r.StatusCode < 400:
		return object.ErrRedirected
	}
	return object.ErrRefused
}

// said returns what an answer says.
func said(r minio.ErrorResponse) string {
	text := fmt.Sprintf("it answered %d %s", r.StatusCode, r.Code)
	if r.Message != "" && r.Message != r.Code {
		text += ": " + r.Message
	}
	return text
}

// A plain error wraps a reason and has a text that was cleaned.
type plain struct {
	reason error
	text   string
}

func (e *plain) Error() string { return e.reason.Error() + " (" + strings.Trim(e.text, "()") + ")" }
func (e *plain) Unwrap() error { return e.reason }

// secrets are texts that no message may contain: a store could send them back.
type secrets struct {
	mu    sync.Mutex // guards texts
	texts []string
}

// maxSaid bounds what a message quotes of an answer, in bytes.
const maxSaid = 300

// keep adds secrets. Only the last few are kept: those before have expired.
func (s *secrets) keep(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range texts {
		if t != "" {
			s.texts = append(s.texts, t, url.QueryEscape(t), url.PathEscape(t))
		}
	}
	s.texts = s.texts[max(0, len(s.texts)-60):]
}

// clean returns a text for a message: without secrets and control characters, and not too long.
func (s *secrets) clean(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.texts {
		text = strings.ReplaceAll(text, t, "…")
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return text
}
