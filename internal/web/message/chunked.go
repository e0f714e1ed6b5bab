package message

// Limits for the overhead of the chunked coding, in bytes.
const (
	maxChunkLine = 16 << 10
	maxTrailer   = 64 << 10
)

type chunkState uint8

const (
	chunkSize    chunkState = iota // first digit of a size
	chunkDigits                    // further digits
	chunkSpace                     // white space after the size
	chunkExt                       // extension, ignored
	chunkSizeLF                    // LF after a size's CR
	chunkData                      // payload; left bytes remain
	chunkDataEnd                   // CR or LF after the payload
	chunkDataLF                    // LF after the payload's CR
	chunkLine                      // first byte of a trailer line
	chunkTrailer                   // within a trailer line
	chunkLastLF                    // LF after the last CR
	chunkDone
	chunkBad
)

// Chunks reads the chunked transfer coding (RFC 9112, 7.1) in pieces. It accepts a bare LF in place
// of CR LF, and ignores extensions and trailers. The zero value is at the start of a body.
type Chunks struct {
	state chunkState
	left  int64 // payload bytes still to come in this chunk
	line  int   // bytes of the current size line, or of the trailer
}

// Bad reports that a wrong byte follows what has been read.
func (c *Chunks) Bad() bool { return c.state == chunkBad }

// Done reports that the whole coding has been read, with its trailer.
func (c *Chunks) Done() bool { return c.state == chunkDone }

// Ended reports whether the last chunk has been read. The trailer may still be incomplete.
func (c *Chunks) Ended() bool { return c.state >= chunkLine && c.state <= chunkDone }

// Next consumes n bytes of p. It stops at the end of p, after a part of the payload, after the end
// of the coding, or before the first wrong byte. data is the payload in the consumed bytes; it is a
// part of p.
func (c *Chunks) Next(p []byte) (data []byte, n int) {
	for n < len(p) {
		b := p[n]
		switch c.state {
		case chunkData:
			k := int(min(int64(len(p)-n), c.left))
			if c.left -= int64(k); c.left == 0 {
				c.state = chunkDataEnd
			}
			return p[n : n+k], n + k
		case chunkDone, chunkBad:
			return nil, n
		case chunkSize:
			v, ok := hexDigit(b)
			if !ok {
				c.state = chunkBad
				continue
			}
			c.left, c.line, c.state = v, 0, chunkDigits
		case chunkDigits:
			if v, ok := hexDigit(b); ok {
				if c.left >= 1<<58 {
					c.state = chunkBad
					continue
				}
				c.left = c.left<<4 | v
				break
			}
			c.afterSize(b)
		case chunkSpace:
			c.afterSize(b)
		case chunkExt:
			if b == '\n' {
				c.begin()
			}
		case chunkSizeLF:
			if b != '\n' {
				c.state = chunkBad
				continue
			}
			c.begin()
		case chunkDataEnd:
			switch b {
			case '\r':
				c.state = chunkDataLF
			case '\n':
				c.state = chunkSize
			default:
				c.state = chunkBad
				continue
			}
		case chunkDataLF:
			if b != '\n' {
				c.state = chunkBad
				continue
			}
			c.state = chunkSize
		case chunkLine:
			switch b {
			case '\r':
				c.state = chunkLastLF
			case '\n':
				c.state = chunkDone
			default:
				c.state = chunkTrailer
			}
		case chunkLastLF:
			switch b {
			case '\n':
				c.state = chunkDone
			default:
				c.state = chunkTrailer
			}
		case chunkTrailer:
			if b == '\n' {
				c.state = chunkLine
			}
		}
		if c.state == chunkBad {
			return nil, n
		}
		n++
		c.line++
		if c.line > maxTrailer || c.line > maxChunkLine && c.state < chunkData {
			c.state = chunkBad
		}
	}
	return nil, n
}

// begin starts the chunk whose size line has ended.
func (c *Chunks) begin() {
	c.line, c.state = 0, chunkData
	if c.left == 0 {
		c.state = chunkLine
	}
}

func (c *Chunks) afterSize(b byte) {
	switch b {
	case ' ', '\t':
		c.state = chunkSpace
	case ';':
		c.state = chunkExt
	case '\r':
		c.state = chunkSizeLF
	case '\n':
		c.begin()
	default:
		c.state = chunkBad
	}
}

func hexDigit(b byte) (int64, bool) {
	switch {
	case '0' <= b && b <= '9':
		return int64(b - '0'), true
	case 'a' <= b && b <= 'f':
		return int64(b-'a') + 10, true
	case 'A' <= b && b <= 'F':
		return int64(b-'A') + 10, true
	}
	return 0, false
}
