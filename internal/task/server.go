package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Server is a NATS server with JetStream inside this process, on loopback.
type Server struct{ server *server.Server }

// serverTime is how long one may take to be ready.
const serverTime = 10 * time.Second

// StartServer starts one that keeps its stream in a directory. Port 0 is any that is free.
func StartServer(dir string, port int) (*Server, error) {
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{ServerName: "eventsvc", Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		return nil, fmt.Errorf("make a NATS server: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(serverTime) {
		s.Shutdown()
		return nil, errors.New("the NATS server is not ready in time")
	}
	return &Server{s}, nil
}

// URL is where it listens.
func (s *Server) URL() string { return s.server.ClientURL() }

// Stop ends it.
func (s *Server) Stop() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}
