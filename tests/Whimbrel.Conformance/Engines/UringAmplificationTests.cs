namespace Whimbrel.Conformance;

// The io_uring engine: the suite of AmplificationTests.cs.
public sealed class UringIpAmplification() : AmplificationSuite(Transport.UringTcp);
