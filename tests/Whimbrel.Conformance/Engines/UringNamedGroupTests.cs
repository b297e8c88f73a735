namespace Whimbrel.Conformance;

// The io_uring engine, as NamedGroupTests.cs for the others.
public sealed class UringTcpNamedGroup() : NamedGroupSuite(Transport.UringTcp);

public sealed class UringUnixNamedGroup() : NamedGroupSuite(Transport.UringUnix);
