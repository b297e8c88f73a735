namespace Whimbrel.Conformance;

// The io_uring engine: the suite of SocketObjectTests.cs.
public sealed class UringTcpSocketObjects() : SocketObjectSuite(Transport.UringTcp);

public sealed class UringUnixSocketObjects() : SocketObjectSuite(Transport.UringUnix);
