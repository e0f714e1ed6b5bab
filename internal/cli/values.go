// Package cli answers: how do our programs parse command lines, write text on a terminal, and know their memory?
// It holds what orbweaver and orblab share: sizes and bandwidths as people write
// them, parsers whose errors say what would be right, and outputs that clean the
// text of servers and archives.
package cli

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
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

// negative matches a negative number or duration, which kong would take for a flag.
var negative = regexp.MustCompile(`^-[0-9.]`)

// mostTime is the longest duration that a flag accepts: a hundred years. Sums of a few of them are
// still durations.
const mostTime = 100 * 365 * 24 * time.Hour

// tooLong matches a duration that time.ParseDuration refuses because it is too long.
var tooLong = regexp.MustCompile(`^[-+]?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`)

// Values returns the kong options by which flags of numbers, sizes and durations are
// parsed. Their errors say what would be right.
func Values() []kong.Option {
	from := func(what string, set func(target reflect.Value, s string) error) kong.Mapper {
		return kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
			var s string
			if v, ok := ctx.Scan.Peek().Value.(string); ok && negative.MatchString(v) {
				ctx.Scan.Pop() // kong takes it for a flag
				return set(target, v)
			}
			if err := ctx.Scan.PopValueInto(what, &s); err != nil {
				return err
			}
			return set(target, s)
		})
	}
	whole := from("number", func(target reflect.Value, s string) error {
		n, err := strconv.ParseInt(s, 10, target.Type().Bits())
		if err != nil {
			return fmt.Errorf("%q is not a whole number; write 100, for example", s)
		}
		target.SetInt(n)
		return nil
	})
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[ByteSize](), from("size", func(target reflect.Value, s string) error {
			return target.Addr().Interface().(*ByteSize).UnmarshalText([]byte(s))
		})),
		kong.TypeMapper(reflect.TypeFor[Delay](), from("duration", func(target reflect.Value, s string) error {
			return target.Addr().Interface().(*Delay).UnmarshalText([]byte(s))
		})),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), from("duration", func(target reflect.Value, s string) error {
			d, err := ParseDuration(s)
			target.SetInt(int64(d))
			return err
		})),
		kong.KindMapper(reflect.Int, whole),
		kong.KindMapper(reflect.Int64, whole),
		kong.KindMapper(reflect.Uint64, from("number", func(target reflect.Value, s string) error {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				return fmt.Errorf("%q is not a whole number from 0; write 100, for example", s)
			}
			target.SetUint(n)
			return nil
		})),
		kong.KindMapper(reflect.Float64, from("number", func(target reflect.Value, s string) error {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil || x-x != 0 { // neither infinite nor not a number
				return fmt.Errorf("%q is not a number; write 2.5, for example", s)
			}
			target.SetFloat(x)
			return nil
		})),
	}
}

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

// HelpText returns a flag's help followed by its default.
func HelpText(v *kong.Value) string {
	if !v.HasDefault || v.Default == "" {
		return v.Help
	}
	return strings.TrimSuffix(v.Help, ".") + " (default: " + v.Default + ")."
}

// ParseDuration reads the value of a flag that is a duration. The error is for people.
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
