using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Hosting;
using Microsoft.Extensions.DependencyInjection;

namespace Whimbrel.Kestrel;

/// <summary>Registers Whimbrel as Kestrel's transport.</summary>
public static class WhimbrelWebHostExtensions
{
    /// <summary>
    /// Makes Kestrel use Whimbrel as its transport: <c>builder.WebHost.UseWhimbrel();</c> before or after other
    /// settings. Supports TCP and Unix end points; binding a file handle throws <see cref="NotSupportedException"/>.
    /// </summary>
    /// <param name="builder">Builder of the web host.</param>
    /// <param name="configure">Callback that sets options, or null for the defaults.</param>
    public static IWebHostBuilder UseWhimbrel(this IWebHostBuilder builder,
        Action<WhimbrelTransportOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.ConfigureServices(services => services.AddWhimbrelTransport(configure));
    }

    /// <summary>
    /// Registers the transport as <see cref="IConnectionListenerFactory"/> and <see cref="IConnectionFactory"/>, in
    /// front of existing registrations.
    /// </summary>
    /// <param name="services">Services of the host.</param>
    /// <param name="configure">Callback that sets options, or null for the defaults.</param>
    public static IServiceCollection AddWhimbrelTransport(this IServiceCollection services,
        Action<WhimbrelTransportOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        if (configure is not null) services.Configure(configure);
        services.AddSingleton<WhimbrelTransport>();
        services.AddSingleton<IConnectionListenerFactory>(
            static provider => provider.GetRequiredService<WhimbrelTransport>());
        services.AddSingleton<IConnectionFactory>(static provider => provider.GetRequiredService<WhimbrelTransport>());
        return services;
    }
}
