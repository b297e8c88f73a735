namespace Whimbrel.Conformance;

// The io_uring engine: the suite of StopTests.cs.
public sealed class UringTcpStops() : StopSuite(Transport.UringTcp);
