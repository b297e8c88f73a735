namespace Whimbrel.Conformance;

// The io_uring engine, as SocketOptionTests.cs for the others.
public sealed class UringTcpSocketOptions() : SocketOptionSuite(Transport.UringTcp);

public sealed class UringUnixSocketOptions() : UnixSocketOptionSuite(Transport.UringUnix);
