namespace Whimbrel.Conformance;

// The io_uring engine: the suites of NamedGroupTests.cs.
public sealed class UringTcpNamedGroup() : NamedGroupSuite(Transport.UringTcp);

public sealed class UringUnixNamedGroup() : NamedGroupSuite(Transport.UringUnix);
