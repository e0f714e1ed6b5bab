package view

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/report/review"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testbrowser"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A browser shows the page with its style and its charts, and asks nobody for anything. A page that does ask shows that
// the test would notice it.
func TestBrowser(t *testing.T) {
	testtier.OnlySoak(t, "it drives Chromium")
	t.Parallel()
	evil, _ := hostile()
	for _, tt := range []struct {
		name   string
		page   string
		asks   bool
		styled bool
	}{
		{"sample", render(t, sample()), false, true},
		{"hostile", render(t, evil), false, true},
		{"control", `<html><img src="http://canary.example/x.png"></html>`, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			picture, asked := browse(t, tt.page)
			if (len(asked) > 0) != tt.asks {
				t.Errorf("the browser asked for %q", asked)
			}
			if !tt.styled {
				return
			}
			// The Content-Security-Policy lets the style sheet pass: the ground is not white.
			if r, g, b, _ := picture.At(3, 3).RGBA(); r>>8 != 0xf5 || g>>8 != 0xf6 || b>>8 != 0xf8 {
				t.Errorf("the ground has the colour %x %x %x", r>>8, g>>8, b>>8)
			}
			if n := count(picture, color.RGBA{0x2f, 0x9e, 0x6e, 255}); tt.name == "sample" && n < 5000 {
				t.Errorf("the picture has %d pixels in the colour of the pages a second", n)
			}
		})
	}
}

func render(t *testing.T, r *review.Review) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, HTML(&b, r, Sections(r, 25)))
	return b.String()
}

// browse opens the page in a headless browser. It returns a picture, and the hosts of the tests that the browser looked
// up.
func browse(t *testing.T, page string) (picture image.Image, asked []string) {
	t.Helper()
	dir := t.TempDir()
	file, shot := filepath.Join(dir, "page.html"), filepath.Join(dir, "page.png")
	must.Do(t, os.WriteFile(file, []byte(page), 0o644))
	b := testbrowser.Start(t)
	b.Go("file://" + file)
	b.Wait("document.readyState === 'complete'")
	b.Run("document.querySelector('svg, img').scrollIntoView()")
	b.Screenshot(shot)
	for _, contact := range b.Contacts() {
		if strings.Contains(contact, ".example") {
			asked = append(asked, contact)
		}
	}
	f, err := os.Open(shot)
	must.Do(t, err)
	defer f.Close()
	if picture, err = png.Decode(f); err != nil {
		t.Fatal(err)
	}
	return picture, asked
}

func count(m image.Image, want color.RGBA) (n int) {
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y++ {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x++ {
			if color.RGBAModel.Convert(m.At(x, y)) == want {
				n++
			}
		}
	}
	return n
}
