namespace Whimbrel.Conformance;

// The io_uring engine: the suites of DatagramTests.cs.
public sealed class UringIpDatagram() : DatagramSuite(Transport.UringTcp);

public sealed class UringUnixDatagram() : DatagramSuite(Transport.UringUnix);
