using System.Reflection;

namespace Whimbrel.Tests.Tls;

public sealed class TlsOptionsTests
{
    [Fact]
    public void A_copy_with_other_application_protocols_differs_in_nothing_else()
    {
        TlsOptions options = new()
        {
            HostName = "a.test",
            AllowResumption = false,
            MaxSilent = 7,
            HandshakeTimeout = TimeSpan.FromSeconds(3),
            ApplicationProtocols = ["h2"],
            PinnedKeys = ["x"]
        };
        string[] names = ["b", "c"];
        TlsOptions copy = options.WithApplicationProtocols(names);
        names[0] = "changed";
        Assert.Equal(["b", "c"], copy.ApplicationProtocols);
        Assert.Equal(["h2"], options.ApplicationProtocols);
        foreach (PropertyInfo property in typeof(TlsOptions).GetProperties(BindingFlags.Instance | BindingFlags.Public
            | BindingFlags.NonPublic))
        {
            if (property.Name != nameof(TlsOptions.ApplicationProtocols))
                Assert.Equal(property.GetValue(options), property.GetValue(copy));
        }

        Assert.Empty(copy.WithApplicationProtocols().ApplicationProtocols);
    }
}
