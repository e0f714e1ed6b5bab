package recent

import (
	"sync"
	"testing"
)

func TestCache(t *testing.T) {
	c := New[int, int](100)
	for n := range 1000 {
		c.Add(n, n)
		c.Add(n, n+1) // does not replace
		if v, ok := c.Get(0); !ok || v != 0 {
			t.Fatalf("after %d others a value in use is forgotten: %d %v", n, v, ok)
		}
	}
	known := 0
	for n := range 1000 {
		if v, ok := c.Get(n); ok {
			if known++; v != n {
				t.Errorf("%d: %d", n, v)
			}
		}
	}
	if known != 100 || c.Len() != 100 {
		t.Errorf("%d values are known, and %d counted", known, c.Len())
	}
	if c.Set(999, 7); c.Len() != 100 {
		t.Errorf("%d values", c.Len())
	}
	if v, ok := c.Get(999); !ok || v != 7 {
		t.Errorf("%d %v, not the value that was set last", v, ok)
	}
}

func TestConcurrent(t *testing.T) {
	c := New[int, int](8)
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for i := range 1000 {
				c.Set(i%20, i%20)
				if v, ok := c.Get(i % 7); ok && v != i%7 {
					t.Errorf("%d: %d", i%7, v)
				}
			}
		})
	}
	g.Wait()
	if c.Len() != 8 {
		t.Errorf("%d values", c.Len())
	}
}
