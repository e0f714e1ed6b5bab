package testweb

import (
	"strings"
	"testing"
	"time"
)

// TestDrippingSites: a dripping host first sends a link to its next page, and then one byte now and then, without end.
func TestDrippingSites(t *testing.T) {
	w := serving(t, Config{Sites: DrippingSites(2, time.Millisecond)})
	head, _ := ask(t, w, "drip1.example", "/7", 120, 20*time.Second)
	if !strings.Contains(string(head), `<a href="/8">next</a>`+strings.Repeat(" ", 10)) {
		t.Errorf("got %q", head)
	}
	robots, _ := ask(t, w, "drip0.example", "/robots.txt", 22, 20*time.Second)
	if string(robots) != "HTTP/1.1 404 Not Found" {
		t.Errorf("robots.txt: %q", robots)
	}
}
