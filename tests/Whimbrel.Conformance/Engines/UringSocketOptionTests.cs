namespace Whimbrel.Conformance;

// The io_uring engine: the suites of SocketOptionTests.cs.
public sealed class UringTcpSocketOptions() : SocketOptionSuite(Transport.UringTcp);

public sealed class UringUnixSocketOptions() : UnixSocketOptionSuite(Transport.UringUnix);
