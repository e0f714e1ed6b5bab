package rpc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Limits of one call.
const (
	// MaxData bounds the bytes of links, records or keys in one message, and maxMessage the
	// decompressed message.
	MaxData    = 1 << 20
	maxMessage = MaxData + 64<<10
	// MaxHosts bounds the hosts in one Claim or Discover.
	MaxHosts    = 4096
	maxHost     = 255 + 2 // of an IPv6 address with brackets, or 253 of a name
	maxAddress  = 255
	maxSettings = 64
	maxSetting  = 256 // octets of a name or a value
	maxCapacity = 1e6
)

// Errors of a message that was refused.
var (
	ErrMalformed = errors.New("malformed message")
	ErrTooLarge  = errors.New("message too large")
)

// Malformedf returns an ErrMalformed that says what is wrong.
func Malformedf(format string, args ...any) error { return malformed(format, args...) }

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// An ID is 128 random bits: of a crawl, or of an agent's instance.
type ID [16]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// A Caller is the identity of a caller. With keys, the name comes from the certificate.
type Caller struct {
	Name     string
	Instance ID
	Boot     uint64
	// Crawl is zero for an agent that does not belong to a crawl yet. Such an agent may only
	// call Hello, Follow and Status.
	Crawl ID
}

// header is the caller in one line: name, instance, boot, crawl.
func (c Caller) header() string {
	return c.Name + " " + c.Instance.String() + " " + strconv.FormatUint(c.Boot, 10) + " " + c.Crawl.String()
}

func parseCaller(s string) (c Caller, err error) {
	f := strings.Split(s, " ")
	if len(f) != 4 || len(s) > 256 {
		return c, malformed("caller %.64q", s)
	}
	if err := CheckName(f[0]); err != nil {
		return c, malformed("%v", err)
	}
	c.Name = f[0]
	if err := c.Instance.parse(f[1]); err != nil {
		return c, err
	}
	if c.Boot, err = strconv.ParseUint(f[2], 10, 64); err != nil {
		return c, malformed("boot %.64q", f[2])
	}
	return c, c.Crawl.parse(f[3])
}

// ParseID reads what String returned.
func ParseID(s string) (id ID, err error) { err = id.parse(s); return id, err }

func (id *ID) parse(s string) error {
	if len(s) != 2*len(id) {
		return malformed("id %.64q", s)
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return malformed("id %.64q", s)
	}
	return nil
}
