package wacz

import (
	"errors"
	"fmt"
	"io"
)

// A copying reads a file and copies it: each byte once and in order, also if its reader goes back.
type copying struct {
	file io.ReaderAt
	size int64 // of the file, in bytes
	to   io.Writer
	at   int64 // of the reader
	done int64 // bytes that were copied
}

// Read reads on, and copies what it reads for the first time.
func (c *copying) Read(p []byte) (n int, err error) {
	if c.at >= c.size {
		return 0, io.EOF
	}
	if c.at > c.done {
		if err := c.copyTo(c.at); err != nil {
			return 0, err
		}
	}
	n, err = c.file.ReadAt(p[:min(int64(len(p)), c.size-c.at)], c.at)
	if n > 0 {
		err = nil
	}
	if fresh := c.done - c.at; err == nil && fresh < int64(n) {
		if _, err = c.to.Write(p[fresh:n]); err != nil {
			return 0, err
		}
		c.done = c.at + int64(n)
	}
	c.at += int64(n)
	return n, err
}

// Seek moves the reader. It is not possible relative to the end.
func (c *copying) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekCurrent {
		offset += c.at
	}
	if whence == io.SeekEnd || offset < 0 {
		return 0, errors.New("this place of the file is not known")
	}
	c.at = offset
	return offset, nil
}

// copyTo copies the bytes before a place that were not copied yet.
func (c *copying) copyTo(end int64) error {
	n, err := io.Copy(c.to, io.NewSectionReader(c.file, c.done, end-c.done))
	c.done += n
	if err == nil && c.done < end {
		err = fmt.Errorf("the file has become shorter: %d bytes of %d", c.done, c.size)
	}
	return err
}
