using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Whimbrel.Hosting;
using Web_Server;

HostApplicationBuilder builder = Host.CreateApplicationBuilder(
    new HostApplicationBuilderSettings { Args = args, ContentRootPath = AppContext.BaseDirectory });

// The server's options are the section Web of appsettings.json; a mistake there ends the program before anything
// listens. For https give it a certificate, "Address": "https://*" and "Tls": { "CertificatePath": "site.pem",
// "KeyPath": "site.key" }.
builder.Services.AddSingleton<NoteStore>();
builder.Services.AddWhimbrelHttpServer("Web", (services, web) => SiteRoutes.Map(web,
    services.GetRequiredService<NoteStore>(), Path.Combine(AppContext.BaseDirectory, "wwwroot")));
builder.Services.AddHealthChecks().AddWhimbrelServer("Web");

// Ctrl-C and SIGTERM stop the host: no new connection is accepted, and pending requests have ten seconds to finish.
builder.Services.Configure<HostOptions>(host => host.ShutdownTimeout = TimeSpan.FromSeconds(10));

await builder.Build().RunAsync();
