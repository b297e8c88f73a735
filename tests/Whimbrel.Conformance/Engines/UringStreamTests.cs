namespace Whimbrel.Conformance;

// The io_uring engine: the suites of StreamTests.cs.
public sealed class UringTcpStream() : StreamSuite(Transport.UringTcp);

public sealed class UringUnixStream() : StreamSuite(Transport.UringUnix);

public sealed class UringTcpStreamServer() : StreamServerSuite(Transport.UringTcp);

public sealed class UringUnixStreamServer() : StreamServerSuite(Transport.UringUnix);
