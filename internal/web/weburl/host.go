package weburl

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// toASCII has the options of the URL standard's "domain to ASCII" with beStrict false.
var toASCII = idna.New(
	idna.MapForLookup(),
	idna.Transitional(false),
	idna.StrictDomainName(false),
	idna.CheckHyphens(false),
	idna.CheckJoiners(true),
	idna.BidiRule(),
	idna.VerifyDNSLength(false),
)

// mapNewerUTS46 applies the mappings that changed in UTS #46 versions 15.1 and 16.
// golang.org/x/net/idna has the Unicode 15 tables with this Go version (Go 1.27 brings 17).
// Characters that did not exist in Unicode 15 are still refused.
func mapNewerUTS46(r rune) rune {
	switch {
	case r < 0x04C0:
		return r
	case 0x10A0 <= r && r <= 0x10C5:
		return r - 0x10A0 + 0x2D00 // Georgian capitals
	case 0x2061 <= r && r <= 0x2063, 0x206A <= r && r <= 0x206F, 0x1D173 <= r && r <= 0x1D17A:
		return -1 // invisible operators, formats, musical marks
	}
	switch r {
	case 0x04C0:
		return 0x04CF
	case 0x1E9E:
		return 'ß'
	case 0x2132:
		return 0x214E
	case 0x2183:
		return 0x2184
	case 0x2F868:
		return 0x36FC
	case 0x2F874:
		return 0x5F53
	case 0x2F91F:
		return 0x243AB
	case 0x2F95F:
		return 0x7AEE
	case 0x2F9BF:
		return 0x45D7
	case 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, 0x3164, 0xFFA0:
		return -1
	}
	return r
}

// maxIDN is the maximum length in octets of a name that goes to the Punycode encoder, whose time is
// quadratic in a label's length. A longer name can never be looked up.
const maxIDN = 2048

// text lets the functions below read a name without a copy.
type text interface{ string | []byte }

// host writes the host that in names. It implements the URL standard's host parser.
func (a *assembler) host(in string) error {
	if in == "" {
		return errNoHost
	}
	if in[0] == '[' {
		if in[len(in)-1] != ']' {
			return errIPv6
		}
		addr, ok := parseIPv6(in[1 : len(in)-1])
		if !ok {
			return errIPv6
		}
		a.out = appendIPv6(a.out, addr)
		return nil
	}
	start := len(a.out)
	for i := 0; i < len(in); i++ {
		c := in[i]
		if is(c, badDomain) {
			if !mayBeIDN(in[i:]) {
				return errHostChar
			}
			a.out = a.out[:start]
			if err := a.domain(in); err != nil {
				return err
			}
			break
		}
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		a.out = append(a.out, c)
	}
	name := a.out[start:]
	if endsInNumber(name) {
		v, ok := parseIPv4(string(name))
		if !ok {
			return errIPv4
		}
		a.out = appendIPv4(a.out[:start], v)
		return nil
	}
	if !a.canonical {
		return nil
	}
	if n := len(name); name[n-1] == '.' {
		a.out = a.out[:len(a.out)-1]
	}
	return checkName(a.out[start:])
}

// checkName returns an error if name cannot be a host name by the limits of RFC 1035, 2.3.4. name
// must not end in a dot.
func checkName[T text](name T) error {
	if len(name) > maxHost {
		return errHostLong
	}
	label := 0
	for i := 0; i < len(name); i++ {
		label++
		if name[i] == '.' {
			if label == 1 {
				return errLabel
			}
			label = 0
		} else if label > maxLabel {
			return errLabel
		}
	}
	if label == 0 {
		return errLabel
	}
	return nil
}

// mayBeIDN reports whether decoding and mapping may change s. They can turn a forbidden character
// into a valid one: a < with a combining stroke after it becomes a valid character.
func mayBeIDN(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == '%' || s[i] >= 0x80 {
			return true
		}
	}
	return false
}

// domain writes a name that has escapes or non-ASCII characters.
func (a *assembler) domain(in string) error {
	name := percentDecode(in)
	ascii := true
	for i := 0; i < len(name) && ascii; i++ {
		ascii = name[i] < 0x80
	}
	if !ascii {
		if len(name) > maxIDN {
			return errHostLong
		}
		if !utf8.ValidString(name) {
			return errDomain
		}
		var err error
		if name, err = toASCII.ToASCII(strings.Map(mapNewerUTS46, name)); err != nil {
			return errDomain
		}
		if name == "" {
			return errNoHost
		}
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		if is(c, badDomain) {
			return errHostChar
		}
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		a.out = append(a.out, c)
	}
	return nil
}

// lastLabel returns the text after the last dot. It ignores a dot at the very end.
func lastLabel[T text](name T) T {
	if n := len(name); n > 0 && name[n-1] == '.' {
		name = name[:n-1]
	}
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return name[i+1:]
		}
	}
	return name
}

// endsInNumber implements the URL standard's "ends in a number checker".
func endsInNumber[T text](name T) bool {
	last := lastLabel(name)
	if len(last) == 0 || last[0] < '0' || last[0] > '9' {
		return false
	}
	digits := true
	for i := 0; i < len(last); i++ {
		digits = digits && '0' <= last[i] && last[i] <= '9'
	}
	if digits {
		return true
	}
	_, ok := parseIPv4Number(string(last))
	return ok
}

// parseIPv4Number reads a number in base 8, 10 or 16. It returns 2^32 for any number of 2^32 or
// more.
func parseIPv4Number(s string) (n uint64, ok bool) {
	base := uint64(10)
	switch {
	case s == "":
		return 0, false
	case len(s) >= 2 && s[0] == '0' && s[1]|0x20 == 'x':
		s, base = s[2:], 16
	case len(s) >= 2 && s[0] == '0':
		s, base = s[1:], 8
	}
	for i := 0; i < len(s); i++ {
		if !is(s[i], isHex) || uint64(unhex(s[i])) >= base {
			return 0, false
		}
		n = min(n*base+uint64(unhex(s[i])), 1<<32)
	}
	return n, true
}

func parseIPv4(s string) (addr uint32, ok bool) {
	s = strings.TrimSuffix(s, ".")
	if strings.Count(s, ".") > 3 {
		return 0, false
	}
	for free := 32; ; {
		part, rest, more := strings.Cut(s, ".")
		n, ok := parseIPv4Number(part)
		if !ok {
			return 0, false
		}
		if !more { // the last number fills the remaining bits
			return addr | uint32(n), n < 1<<free
		}
		if n > 255 {
			return 0, false
		}
		free -= 8
		addr |= uint32(n) << free
		s = rest
	}
}

func appendIPv4(dst []byte, addr uint32) []byte {
	for shift := 24; shift >= 0; shift -= 8 {
		dst = strconv.AppendUint(dst, uint64(addr>>shift&255), 10)
		if shift > 0 {
			dst = append(dst, '.')
		}
	}
	return dst
}

// parseIPv6 reads an address without its brackets. As the URL standard says, and unlike net/netip,
// it accepts no zone. A "::" stands for at least one piece.
func parseIPv6(s string) (addr [8]uint16, ok bool) {
	piece, compress := 0, -1
	if strings.HasPrefix(s, ":") {
		if !strings.HasPrefix(s, "::") {
			return addr, false
		}
		s = s[2:]
		piece, compress = 1, 1
	}
	for s != "" {
		if piece == 8 {
			return addr, false
		}
		if s[0] == ':' {
			if compress >= 0 {
				return addr, false
			}
			s = s[1:]
			piece++
			compress = piece
			continue
		}
		v, n := uint16(0), 0
		for n < 4 && n < len(s) && is(s[n], isHex) {
			v = v<<4 | uint16(unhex(s[n]))
			n++
		}
		if n < len(s) && s[n] == '.' {
			quad, ok := parseQuad(s)
			if !ok || n == 0 || piece > 6 {
				return addr, false
			}
			addr[piece], addr[piece+1] = uint16(quad>>16), uint16(quad)
			piece += 2
			break
		}
		if n == 0 {
			return addr, false
		}
		s = s[n:]
		if s != "" {
			if s[0] != ':' || len(s) == 1 {
				return addr, false
			}
			s = s[1:]
		}
		addr[piece] = v
		piece++
	}
	if compress < 0 {
		return addr, piece == 8
	}
	tail := piece - compress
	copy(addr[8-tail:], addr[compress:piece])
	clear(addr[compress : 8-tail])
	return addr, true
}

// parseQuad reads the dotted quad at the end of an IPv6 address: four decimal numbers without
// leading zeros.
func parseQuad(s string) (addr uint32, ok bool) {
	for i := range 4 {
		part, rest, more := strings.Cut(s, ".")
		if more != (i < 3) || part == "" || len(part) > 3 || len(part) > 1 && part[0] == '0' {
			return 0, false
		}
		n := uint32(0)
		for j := 0; j < len(part); j++ {
			if part[j] < '0' || part[j] > '9' {
				return 0, false
			}
			n = n*10 + uint32(part[j]-'0')
		}
		if n > 255 {
			return 0, false
		}
		addr, s = addr<<8|n, rest
	}
	return addr, true
}

// appendIPv6 writes addr in brackets. It writes the first longest run of two or more zero pieces as
// "::".
func appendIPv6(dst []byte, addr [8]uint16) []byte {
	from, n := -1, 1
	for i := 0; i < 8; i++ {
		j := i
		for j < 8 && addr[j] == 0 {
			j++
		}
		if j-i > n {
			from, n = i, j-i
		}
		i = max(i, j-1)
	}
	dst = append(dst, '[')
	for i := 0; i < 8; i++ {
		if i == from {
			dst = append(dst, "::"...)
			i += n - 1
			continue
		}
		if i > 0 && i != from+n || from < 0 && i > 0 {
			dst = append(dst, ':')
		}
		dst = strconv.AppendUint(dst, uint64(addr[i]), 16)
	}
	return append(dst, ']')
}
