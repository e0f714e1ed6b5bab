// Package quantity answers: how do people write sizes, bandwidths, durations and shares?
//
// Each type reads its text with UnmarshalText, whose error says what would be right, and writes it with MarshalText.
package quantity

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// A ByteSize is a number of bytes. People write it as 500MB, 2GiB or 1048576.
// It implements encoding.TextMarshaler and encoding.TextUnmarshaler.
type ByteSize int64

func (b *ByteSize) UnmarshalText(text []byte) error {
	if len(text) > 0 && text[0] == '-' {
		return fmt.Errorf("%q is negative; a size is a number of bytes such as 100, 500MB or 2GiB", text)
	}
	n, err := strconv.ParseUint(string(text), 10, 63)
	if err != nil { // not a plain number, which ParseBytes would round
		n, err = humanize.ParseBytes(string(text))
	}
	if err != nil || n > 1<<62 {
		return fmt.Errorf("%q is not a size in bytes; write 500MB, 2GiB or 1048576", text)
	}
	*b = ByteSize(n)
	return nil
}

// String returns b with the unit that makes its number the smallest whole one. UnmarshalText reads it back.
func (b ByteSize) String() string {
	least, unit := int64(b), ""
	for i, prefix := range []string{"k", "M", "G", "T", "P"} {
		decimal, binary := int64(math.Pow10(3*(i+1))), int64(1)<<(10*(i+1))
		if n := int64(b) / decimal; n*decimal == int64(b) && n > 0 && n < least {
			least, unit = n, prefix+"B"
		}
		if n := int64(b) / binary; n*binary == int64(b) && n > 0 && n < least {
			least, unit = n, strings.ToUpper(prefix)+"iB"
		}
	}
	return strconv.FormatInt(least, 10) + unit
}

func (b ByteSize) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// A Delay is a duration, or Auto. It implements encoding.TextMarshaler and encoding.TextUnmarshaler.
type Delay time.Duration

// Auto is the Delay "auto".
const Auto Delay = math.MinInt64

func (d *Delay) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*d = Auto
		return nil
	}
	x, err := ParseDuration(string(text))
	*d = Delay(x)
	return err
}

// String returns "auto", or the duration as time.Duration does.
func (d Delay) String() string {
	if d == Auto {
		return "auto"
	}
	return time.Duration(d).String()
}

func (d Delay) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// mostTime is the longest duration: a hundred years. Sums of a few of them are
// still durations.
const mostTime = 100 * 365 * 24 * time.Hour

// tooLong matches a duration that time.ParseDuration refuses because it is too long.
var tooLong = regexp.MustCompile(`^[-+]?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`)

// ParseDuration reads a duration. The error is for people.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil && tooLong.MatchString(s), d > mostTime, d < -mostTime:
		return 0, fmt.Errorf("%q is too long; give at most %.0fh", s, mostTime.Hours())
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration; write 500ms, 90s or 2h30m", s)
	}
	return d, nil
}

// A Span is a part of a crawl: a time, a size in bytes, or the whole run of an agent ("end"). The zero Span is none. It
// implements encoding.TextMarshaler and encoding.TextUnmarshaler.
type Span struct {
	Time  time.Duration
	Bytes ByteSize
	End   bool
}

func (s *Span) UnmarshalText(text []byte) error {
	wrong := fmt.Errorf("%q is not a part of a crawl; give a time of at least 1m such as 1h, a size of at least 1MB "+
		"such as 1GB, or end", text)
	if len(text) == 0 {
		*s = Span{}
		return nil
	}
	if string(text) == "end" {
		*s = Span{End: true}
		return nil
	}
	if d, err := ParseDuration(string(text)); err == nil {
		if d < time.Minute {
			return wrong
		}
		*s = Span{Time: d}
		return nil
	}
	var b ByteSize
	if b.UnmarshalText(text) != nil || b < 1e6 {
		return wrong
	}
	*s = Span{Bytes: b}
	return nil
}

// String returns the text that UnmarshalText reads back.
func (s Span) String() string {
	switch {
	case s.End:
		return "end"
	case s.Time > 0:
		return s.Time.String()
	case s.Bytes > 0:
		return s.Bytes.String()
	}
	return ""
}

func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Bandwidth is a number of bytes a second. People write it as 320Mbit or 40MB/s.
// It implements encoding.TextMarshaler.
type Bandwidth int64

var (
	bandwidthText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(|k|K|M|G|Ki|Mi|Gi)(bit|bit/s|bps|B|B/s|Bps)$`)
	prefixes      = map[string]float64{
		"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30,
	}
)

// UnmarshalText implements encoding.TextUnmarshaler. A number without a unit is an
// error, because bits and bytes are both usual.
func (b *Bandwidth) UnmarshalText(text []byte) error {
	wrong := fmt.Errorf("%q is not a bandwidth; write 320Mbit or 40MB, each a second", text)
	m := bandwidthText.FindStringSubmatch(string(text))
	if m == nil {
		return wrong
	}
	x, err := strconv.ParseFloat(m[1], 64)
	x *= prefixes[m[2]]
	if m[3][0] == 'b' {
		x /= 8
	}
	if err != nil || !(x >= 1 && x < 1<<50) {
		return wrong
	}
	*b = Bandwidth(x)
	return nil
}

func (b Bandwidth) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%dB", int64(b)), nil }

// A Share is a part of a whole, from 0 to 1. People write it as 0.05 or 5%.
// It implements encoding.TextMarshaler and encoding.TextUnmarshaler.
type Share float64

func (s *Share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	x, err := strconv.ParseFloat(number, 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x <= 1) {
		return fmt.Errorf("%q is not a share between 0 and 1; write 0.05 or 5%%", text)
	}
	*s = Share(x)
	return nil
}

func (s Share) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(s), 'g', -1, 64), nil
}
