package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/tarnfs/tarn/engine/outcome"
)

// stops turns SIGINT and SIGTERM into what a command understands: the first
// cancels its context, so that it ends in order; the second gives up waiting.
type stops struct {
	signals chan os.Signal
	cancel  context.CancelFunc
	done    chan struct{} // closed by end
	ended   chan struct{} // closed when the loop has returned

	mu     sync.Mutex // guards second
	second func()
}

// watchSignals starts listening; the caller calls end.
func watchSignals(parent context.Context) (context.Context, *stops) {
	ctx, cancel := context.WithCancel(parent)
	s := &stops{
		signals: make(chan os.Signal, 4),
		cancel:  cancel,
		done:    make(chan struct{}),
		ended:   make(chan struct{}),
		second:  func() { os.Exit(outcome.Interrupted.Exit()) },
	}
	signal.Notify(s.signals, os.Interrupt, syscall.SIGTERM)
	go s.loop()
	return ctx, s
}

func (s *stops) loop() {
	defer close(s.ended)
	for first := true; ; first = false {
		select {
		case <-s.done:
			return
		case <-s.signals:
		}
		if first {
			s.cancel()
			continue
		}
		s.mu.Lock()
		f := s.second
		s.mu.Unlock()
		f()
	}
}

// onSecond replaces what every signal after the first does. A mount sets it:
// leaving at once would leave a dead mount point behind.
func (s *stops) onSecond(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.second = f
}

// end stops listening and waits for the loop.
func (s *stops) end() {
	signal.Stop(s.signals)
	close(s.done)
	<-s.ended
	s.cancel()
}
