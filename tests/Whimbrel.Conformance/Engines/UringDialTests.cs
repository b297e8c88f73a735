namespace Whimbrel.Conformance;

// The io_uring engine: the suites of ConnectTests.cs.
public sealed class UringTcpConnects() : ConnectSuite(Transport.UringTcp);

public sealed class UringUnixConnects() : ConnectSuite(Transport.UringUnix);

public sealed class UringTcpReconnects() : ReconnectSuite(Transport.UringTcp);

public sealed class UringUnixReconnects() : ReconnectSuite(Transport.UringUnix);
