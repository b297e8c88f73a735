using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Hosting;
using Microsoft.Extensions.DependencyInjection;

namespace Whimbrel.Kestrel;

/// <summary>Puts Kestrel on the engines of Whimbrel.</summary>
public static class WhimbrelWebHostExtensions
{
    /// <summary>
    /// Kestrel listens by Whimbrel: <c>builder.WebHost.UseWhimbrel();</c> Before or after its other settings. TCP and Unix end points; for those
    /// of a file handle binding throws <see cref="NotSupportedException"/>.
    /// </summary>
    /// <param name="builder">Of the web host.</param>
    /// <param name="configure">Sets options, or null for the defaults.</param>
    public static IWebHostBuilder UseWhimbrel(this IWebHostBuilder builder, Action<WhimbrelTransportOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(builder);
        return builder.ConfigureServices(services => services.AddWhimbrelTransport(configure));
    }

    /// <summary>The same for services: an <see cref="IConnectionListenerFactory"/> and an <see cref="IConnectionFactory"/>, in front of those that are there.</summary>
    /// <param name="services">Of the host.</param>
    /// <param name="configure">Sets options, or null for the defaults.</param>
    public static IServiceCollection AddWhimbrelTransport(this IServiceCollection services, Action<WhimbrelTransportOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(services);
        if (configure is not null) services.Configure(configure);
        services.AddSingleton<WhimbrelTransport>();
        services.AddSingleton<IConnectionListenerFactory>(static provider => provider.GetRequiredService<WhimbrelTransport>());
        services.AddSingleton<IConnectionFactory>(static provider => provider.GetRequiredService<WhimbrelTransport>());
        return services;
    }
}
