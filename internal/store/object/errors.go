package object

import (
	"context"
	"errors"
	"fmt"
)

// The reasons for which a request fails. Each says what is wrong and what would be right.
var (
	ErrNotFound   = errors.New("there is no such object")
	ErrChanged    = errors.New("the object is not the one that was to be replaced: another process has written it")
	ErrDamaged    = errors.New("the store has other bytes than were sent")
	ErrLost       = errors.New("the store has confirmed the object and does not have it")
	ErrDigest     = errors.New("the store has received other bytes than were sent: the network or the file has changed")
	ErrKey        = errors.New("the key is no path of a file: give a relative one without .. and control characters")
	ErrAnswer     = errors.New("the answer makes no sense: is this an S3 endpoint? Check AWS_ENDPOINT_URL_S3")
	ErrTooLarge   = errors.New("the object is larger than the reader allows")
	ErrNoBucket   = errors.New("there is no such bucket: check its name and the endpoint, or create it")
	ErrDenied     = errors.New("the credentials do not permit this: add the right in the store's policy")
	ErrNoKeys     = errors.New("there are no credentials")
	ErrWrongKeys  = errors.New("the store does not accept the credentials: check the access key and the secret key")
	ErrExpired    = errors.New("the credentials have expired: get new ones")
	ErrSkewed     = errors.New("the clock of this machine differs too much from the store's: set it, as by NTP")
	ErrRegion     = errors.New("the bucket is in another region: set AWS_REGION")
	ErrSlow       = errors.New("the store asks to send less (SlowDown)")
	ErrAway       = errors.New("the store cannot be reached: check the endpoint and the network")
	ErrUnmounted  = errors.New("the directory of the store is gone: is its disk mounted?")
	ErrBroken     = errors.New("the store has an error of its own: look at its log")
	ErrFull       = errors.New("the disk of the store is full: make room there")
	ErrRefused    = errors.New("the store refuses the request")
	ErrRedirected = errors.New("the endpoint redirects to another address, which is not followed: name that one")
)

// What a Backend also returns, and a Store handles.
var (
	ErrPrecondition = errors.New("the condition of the write does not hold")
	ErrConflict     = errors.New("another write of this object is under way")
	ErrNoUpload     = errors.New("there is no such upload in parts")
	ErrUnsupported  = errors.New("the store cannot do this")
)

// An ExistsError says that an object exists that was to be created.
type ExistsError struct {
	There Info
	// Same says that the object has the content that was to be written. So it is most likely the writer's own.
	Same bool
}

func (e *ExistsError) Error() string {
	if e.Same {
		return "there is such an object already, with the same content"
	}
	return fmt.Sprintf("there is another object of this name already (%d bytes); use another prefix", e.There.Size)
}

// Temporary reports whether the same request may succeed later.
func Temporary(err error) bool {
	return errors.Is(err, ErrSlow) || errors.Is(err, ErrAway) || errors.Is(err, ErrUnmounted) ||
		errors.Is(err, ErrBroken) || errors.Is(err, ErrConflict)
}

// uncertain reports whether a request may have been carried out although it failed.
func uncertain(err error) bool {
	return errors.Is(err, ErrAway) || errors.Is(err, ErrBroken) || errors.Is(err, ErrAnswer) ||
		errors.Is(err, context.DeadlineExceeded)
}
